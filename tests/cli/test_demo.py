"""`trilens demo`: the simulated cluster, through everything, to the commands."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import psutil
import pytest

from servers import end_with_the_tests, free_port, until
from trilens.cli.demo import TRY
from trilens.simulate.over_http.pace import grown
from trilens.simulate.scenario import load_scenario
from trilens_process import TRILENS, clean_environment, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.whole


GPUS = 64
HOUR_MS = 3_600_000


@contextmanager
def running_demo(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    address = f"127.0.0.1:{free_port()}"
    command = [*TRILENS, "demo", "--gpus", str(GPUS), "--interval", "4s", "--listen", address]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean_environment(TMPDIR=str(tmp_path)),
        preexec_fn=end_with_the_tests,
    ) as process:
        try:
            yield f"http://{address}", process
        finally:
            process.kill()


def introduction(output: IO[str]) -> list[str]:
    """A line, what to do, and three lines for each command to try."""
    return [output.readline() for _ in range(3 + 3 * len(TRY))]


def workloads(url: str) -> list[dict[str, Any]]:
    answer = trilens("workloads", "--server", url, "--json")
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def succeeds(*arguments: str) -> bool:
    return trilens(*arguments).returncode == 0


def run_state(url: str, name: str) -> str | None:
    found = json.loads(trilens("runs", "--server", url, "--json").stdout or "[]")
    return next((one["state"] for one in found if one["name"] == name), None)


def gpu_hours_of_the_last_hours(url: str) -> float:
    answer = trilens("cost", "--by", "cluster", "--from", "-1h", "--server", url, "--json")
    return sum(one["now"]["gpu_ms"] for one in json.loads(answer.stdout)["totals"]) / HOUR_MS


def jobs_of_the_scenario() -> set[tuple[str, str, str]]:
    """Those that are under way when the demo begins."""
    world = grown(load_scenario("demo").sized(GPUS), now_ms=1_790_000_000_000, age_ms=HOUR_MS)
    return {(job.namespace, job.kind, job.name) for job in world.truth.jobs.values() if job.to_ms is None}


def test_the_demo_shows_the_jobs_of_its_cluster_and_cleans_up(tmp_path: Path) -> None:
    expected = jobs_of_the_scenario()
    assert len({kind for _, kind, _ in expected}) > 3
    with running_demo(tmp_path) as (url, process):
        assert process.stdout is not None
        first = process.stdout.readline()
        assert f"{url} with a simulated cluster of {GPUS} GPUs on 8 nodes" in first

        def shown() -> set[tuple[str, str, str]]:
            return {(one["namespace"], one["kind"], one["name"]) for one in workloads(url)}

        until(lambda: shown() >= expected, "the jobs of the cluster")
        by_phase = {one["phase"]["phase"] for one in workloads(url) if one["phase"] is not None}
        assert {"running", "queued"} <= by_phase
        commands = {line.strip() for line in introduction(process.stdout) if f" --server {url}" in line}
        assert len(commands) == len(TRY)
        for command in commands:
            _, *arguments = shlex.split(command)
            until(partial(succeeds, *arguments), command)
        hung = "DCGM_FI_DEV_GPU_UTIL > 95 and on (UUID) DCGM_FI_DEV_POWER_USAGE < 200"
        until(lambda: "vision-finetune" in trilens("query", hung, "--server", url).stdout, "the hung job")
        loss = "count(training_loss)"
        until(lambda: trilens("query", loss, "--server", url).stdout.strip() != "", "the programs' metrics")
        until(lambda: run_state(url, "vision-finetune-1") == "stalled", "the hung job's run")
        assert run_state(url, "llm-pretrain-1") == "running"
        until(lambda: gpu_hours_of_the_last_hours(url) >= GPUS, "the money of the hour before")
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 1
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(30) == 0, rest
        assert "Traceback" not in rest
        assert not any(child.is_running() for child in children)
    assert list(tmp_path.iterdir()) == []
