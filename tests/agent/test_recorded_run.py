"""An agent on a real H200 told of a run of torchrun with an Xid and a restart: what a server makes of it."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from recorded_nvml import FIXTURES, UUID

from http_target import HttpTarget
from memory_api import running, working
from servers import until
from trilens.serve import gpu_bindings
from trilens.serve.compose import System
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Ask = Callable[..., Any]

pytestmark = pytest.mark.whole

FRAMES: list[dict[str, Any]] = json.loads((FIXTURES / "h200_torchrun.json").read_text(encoding="utf-8"))[
    "frames"
]
XID_MS = 1_794_735_010_503
STARTED_MS = (1_794_734_968_660, 1_794_735_011_470)  # the processes of each attempt, by the kernel
READINGS = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilization.gpu", {"abs": 2}),
    "DCGM_FI_DEV_POWER_USAGE": ("power.draw", {"rel": 0.02}),
    "DCGM_FI_DEV_FB_USED": ("memory.used", {"abs": 1}),  # nvidia-smi rounds up to whole MiB, DCGM down
    "DCGM_FI_DEV_GPU_TEMP": ("temperature.gpu", {"abs": 1}),
}


class Clock:
    """Jumps to where it is told to, and goes on from there: what the whole server takes for the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead_ns = 0
        self._real_ns = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: self._real_ns() + self._ahead_ns)
        monkeypatch.setattr(time, "time", lambda: (self._real_ns() + self._ahead_ns) / 1e9)

    def jump(self, t_ms: int) -> None:
        self._ahead_ns = t_ms * 1_000_000 - self._real_ns()


class RecordedAgent:
    def __init__(self, target: HttpTarget, clock: Clock) -> None:
        self.target = target
        self._clock = clock

    def stand_at(self, frame: dict[str, Any]) -> None:
        self._clock.jump(frame["t_ms"])
        for page, told in frame["pages"].items():
            self.target.say(told if isinstance(told, str) else json.dumps(told), page)

    def heard(self) -> None:
        """All of it was taken: who asks again has dealt with the answer before."""
        mark = len(self.target.requests)
        pages: Counter[str] = Counter()
        while min(pages["/metrics"], pages["/v1/processes"]) < 2:
            assert self.target.asked.acquire(timeout=20), f"nobody asks any more: {pages}"
            pages = Counter(path.partition("?")[0] for path, _ in self.target.requests[mark:])


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedAgent]:
    for name in ("_EVERY_S", "_LOOK_S"):
        monkeypatch.setattr(gpu_bindings, name, 0.05)
    with HttpTarget() as target:
        yield RecordedAgent(target, Clock(monkeypatch))


@contextmanager
def serving(folder: Path, agent: RecordedAgent) -> Iterator[Ask]:
    section = {"static_configs": [{"targets": [agent.target.address]}], "scrape_interval": "100ms"}
    overrides = {
        "storage.data_dir": folder / "data",
        "agents.scrape_config": section,
        "agents.interval": "50ms",
        "rules.builtin": False,
    }
    settings = load_settings(overrides=overrides, environ={})
    system = System(settings, None, lambda: settings)
    with working(system), running(system.app) as url:
        yield lambda path, **params: httpx.get(f"{url}{path}", params=params).json()["data"]


def values(ask: Ask, query: str) -> dict[str, float]:
    found = ask("/api/v1/query", query=query)["result"]
    return {one["metric"].get("__name__", ""): float(one["value"][1]) for one in found}


def beside(t_ms: int) -> dict[str, str]:
    """What nvidia-smi printed in the same second, or the next."""
    with (FIXTURES / "h200_torchrun_nvidia_smi.csv").open(encoding="utf-8") as stream:
        row = min(csv.DictReader(stream), key=lambda row: abs(float(row["t_s"]) - t_ms / 1000))
    assert abs(float(row["t_s"]) - t_ms / 1000) < 1.1
    return row


def reads_as(ask: Ask, told: dict[str, str]) -> bool:
    """What was scraped can be asked for a moment later."""
    read = values(ask, f'{{__name__=~"DCGM_.+",UUID="{UUID}"}}')
    return all(
        read.get(metric) == pytest.approx(float(told[column]), **within)
        for metric, (column, within) in READINGS.items()
    )


def phases(ask: Ask) -> list[str | None]:
    return [one["phase"] and one["phase"]["phase"] for one in ask("/api/workloads")]


def holders(ask: Ask) -> list[tuple[str, int, int, str]]:
    [gpu] = ask("/api/gpus")
    assert gpu["uuid"] == UUID
    found = [(one["workload"], one["attempt"], one["rank"], one["share"]) for one in gpu["holders"]]
    return sorted(found)


def test_a_run_with_a_fault_and_a_restart_is_told_as_it_was(tmp_path: Path, agent: RecordedAgent) -> None:
    """The server starts anew in the midst of the first attempt, and while nothing runs."""
    attempt = None
    for frames in (FRAMES[:3], FRAMES[3:5], FRAMES[5:]):
        agent.stand_at(frames[0])
        with serving(tmp_path, agent) as ask:
            for frame in frames:
                if frame is not frames[0]:
                    agent.stand_at(frame)
                agent.heard()
                if frame["what"] != "right after the fault":  # when all of it changes within the second
                    told = beside(frame["t_ms"])
                    until(lambda told=told: reads_as(ask, told), f"{frame['what']}: other readings")
                running_now = frame["pages"]["/v1/processes"]["workloads"]
                until(
                    lambda told=running_now: phases(ask) == len(told) * ["running"], "another phase is told"
                )
                if running_now:
                    attempt = ask("/api/workloads")[0]["attempt"]
                expected = [("try-on-gpu", attempt, rank, "1/2") for rank in (0, 1)] if running_now else []
                until(lambda expected=expected: holders(ask) == expected, f"{expected} do not share it")
            if frames[-1] is FRAMES[-1]:
                _check_the_whole(ask)


def _check_the_whole(ask: Ask) -> None:
    [event] = ask("/api/events", **{"from": "0"})
    assert (event["t_ms"], event["kind"], event["code"]) == (XID_MS, "xid", 31)
    assert (event["uuid"], event["pid"], event["rank"]) == (UUID, 487, 1)
    [victim] = event["victims"]
    assert (victim["pod"], victim["workload"]["name"]) == ("python3-487@h200-1", "try-on-gpu")
    assert values(ask, 'trilens_gpu_xid_total{xid="31"}') == {"trilens_gpu_xid_total": 1}

    [gone] = ask("/api/workloads", **{"from": "0"})
    assert gone["gone"]["phase"] == "running"
    whole = ask("/api/workloads/machines/ada/Run/try-on-gpu")
    members = [(one["attempt"], one["node_rank"], one["pod"], one["from_ms"]) for one in whole["members"]]
    assert members == [
        (attempt, rank, f"python3-{first + rank}@h200-1", STARTED_MS[attempt])
        for attempt, first in ((0, 486), (1, 690))
        for rank in (0, 1)
    ]
    assert [one["to_ms"] >= XID_MS for one in whole["members"]] == [True] * 4
    assert [(one["attempt"], one["phase"]) for one in whole["attempts"]] == [(0, "running"), (1, "running")]
    bindings = [(one["attempt"], one["rank"], one["share"], one["sources"]) for one in whole["gpus"]]
    assert bindings == [(attempt, rank, "1/2", ["process"]) for attempt in (0, 1) for rank in (0, 1)]
