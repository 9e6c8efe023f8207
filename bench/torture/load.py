"""An hour of everything at once: 300,000 series every 15 s, 1,024 ranks that tell of their steps, 50 people
on pages, rules and detectors on.

A simulated cluster has the ranks, the workloads and its own GPUs; plain targets have the other series, as
text that costs little to make. Each is in a process of its own, with the server on the same two cores. One
that is interrupted begins anew: that memory is flat for an hour is seen in one hour.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np

from bench.intake import NODES_PER_TARGET
from bench.report import table
from bench.targets import serving
from bench.torture.row import Outcome, Row
from bench.torture.slope import slope_of
from bench.torture.tally import Tally
from bench.web.past import CLUSTER
from bench.web.watched import WatchingTrilens
from servers import end_with_the_tests
from trilens.simulate.fleet import Fleet
from trilens.simulate.over_http.process import SimulatorProcess
from trilens.simulate.scenario import load_scenario

if TYPE_CHECKING:
    from bench.torture.row import Wanted

_SCENARIO: Final = Path(__file__).with_name("load.yaml")
_SERIES: Final = 300_000
_RANKS: Final = 1_024
_PEOPLE: Final = 50
_INTERVAL_S: Final = 15
_GOAL_MS: Final = 500.0
_EVERY_S: Final = 10.0
_WARM_S: Final = 1_440.0  # series are made, caches and the recent window fill, the first hour is booked
# The window gets a chunk for each series every 16 scrapes: this is full within the warming up. Full by
# default it would be later, and until then memory grows as it should.
_RECENT: Final = "512MiB"
_PATIENCE_S: Final = 900.0
_SHARE_MAX: Final = 0.4  # of the time that may count as warming up
_LATE_MAX: Final = 0.01  # of the scrapes may be left out, of passes over rules, and of looks of detectors
_TAKEN_LEAST: Final = 0.95  # of the steps that were made
_TOLD_EVERY_S: Final = 80.0  # so many ranks of one simulator tell so seldom: the last steps are not told yet
_COUNTED: Final = {
    "scrapes": ("trilens_scrapes_total",),
    "failed scrapes": ("trilens_scrapes_failed_total",),
    "passes over rules": ("trilens_rule_group_iterations_total",),
    "missed passes over rules": ("trilens_rule_group_iterations_missed_total",),
    "failed rules": ("trilens_rule_evaluation_failures_total",),
    "looks of detectors": ("trilens_detection_rounds_total",),
    "missed looks of detectors": ("trilens_detection_rounds_skipped_total",),
    "failed detectors": ("trilens_detection_failures_total",),
    "steps": ("trilens_run_records_steps_total",),
    "dropped": (
        *(
            f'trilens_scrape_samples_total{{outcome="{outcome}"}}'
            for outcome in ("duplicate", "out_of_order", "too_old", "too_far_ahead", "refused")
        ),
        'trilens_run_records_batches_total{outcome="refused"}',
    ),
}
_ALIVE: Final = "trilens_run_processes_alive"
_SAMPLE: Final = re.compile(r"^(?P<series>[a-z_]+(?:\{[^}]*\})?) (?P<value>\S+)$", re.MULTILINE)


@dataclass
class LoadTrilens(WatchingTrilens):
    """Scrapes the cluster and the plain targets, with rules and detectors as they are by default."""

    plain: list[str] = field(default_factory=list)

    def scrape_document(self) -> dict[str, object]:
        document: dict[str, Any] = super().scrape_document()
        plain = {"job_name": "plain", "static_configs": [{"targets": self.plain}]}
        document["scrape"]["scrape_configs"].append(plain)
        return document | {"storage": {"recent_memory": _RECENT}}


def _run(wanted: Wanted) -> Outcome:
    file = wanted.folder / "measured.json"
    if not file.exists() or not wanted.is_whole(_read(file)["seconds"]):
        measured = _measure(wanted)
        file.write_text(json.dumps(measured), encoding="utf-8")
    return _outcome(_read(file))


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _measure(wanted: Wanted) -> dict[str, Any]:
    seconds = wanted.length
    simulated = [
        "--scenario",
        str(_SCENARIO),
        "--telling-ranks",
        str(_RANKS),
        "--identity",
        CLUSTER,
        "--age",
        "10m",
    ]
    with Tally(wanted).session() as session, ExitStack() as parts:
        folder = session.folder
        simulator = parts.enter_context(SimulatorProcess(simulated))
        cluster = simulator.described()
        plain = parts.enter_context(serving(_SERIES // Fleet(1).series_per_node, NODES_PER_TARGET))
        trilens = LoadTrilens(folder / "trilens", interval_s=_INTERVAL_S, cluster=cluster, plain=plain)
        parts.callback(trilens.stop)
        trilens.start()
        simulator.send_records_to(trilens.url)
        _until_all_is_there(trilens.url)
        asked = folder / "asked.json"
        command = [
            sys.executable,
            "-m",
            "bench.torture.people",
            trilens.url,
            str(_PEOPLE),
            f"{seconds:.0f}",
            asked,
        ]
        people = subprocess.Popen([str(part) for part in command], preexec_fn=end_with_the_tests)
        parts.callback(people.kill)
        measured = _measured(trilens, people, seconds)
        measured["people ended with"] = people.wait(_PATIENCE_S)
        return measured | _asked(asked)


def _asked(file: Path) -> dict[str, Any]:
    """Nothing where the people did not come to their end."""
    return _read(file) if file.exists() else {"took_ms": {}, "failures": {}}


def _until_all_is_there(url: str) -> None:
    ends_s = time.monotonic() + _PATIENCE_S
    while _value(url, "sum(scrape_samples_scraped)") < _SERIES or not _runs(url):
        if time.monotonic() > ends_s:
            return  # the figures tell how much there was
        time.sleep(5)


def _runs(url: str) -> int:
    answer = httpx.get(f"{url}/api/runs", params={"limit": "1"}, timeout=60).raise_for_status()
    runs = answer.json()["data"]["runs"]
    return len(runs[0]["workloads"]) if runs else 0


def _value(url: str, query: str) -> float:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, timeout=60).raise_for_status()
    result = answer.json()["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def _own(url: str) -> dict[str, float]:
    """What the server tells of itself, by the series as it is written, and summed by the name alone."""
    found: dict[str, float] = {}
    for one in _SAMPLE.finditer(httpx.get(f"{url}/metrics", timeout=60).text):
        for name in {one["series"], one["series"].partition("{")[0]}:
            found[name] = found.get(name, 0.0) + float(one["value"])
    return found


def _counts(url: str) -> dict[str, float]:
    told = _own(url)
    return {name: sum(told.get(one, 0.0) for one in series) for name, series in _COUNTED.items()}


def _measured(trilens: LoadTrilens, people: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    began_s, before, memory = time.monotonic(), _counts(trilens.url), []
    cpu_s = trilens.usage().cpu_s
    targets = _value(trilens.url, "count(up)")
    while time.monotonic() - began_s < seconds and people.poll() is None:
        time.sleep(min(_EVERY_S, seconds / 10))
        usage = trilens.usage()
        memory.append((round(time.monotonic() - began_s, 1), round(usage.rss_mb - usage.file_mb, 1)))
    took_s = time.monotonic() - began_s
    after = _counts(trilens.url)
    return {
        "seconds": min(seconds, took_s),
        "memory": memory,
        "cores": (trilens.usage().cpu_s - cpu_s) / took_s,
        "counts": {name: after[name] - before[name] for name in after},
        "expected scrapes": targets * took_s / _INTERVAL_S,
        **_there_at_the_end(trilens.url),
    }


def _there_at_the_end(url: str) -> dict[str, float]:
    """Nothing where that is not answered: it misses, and the hour's figures are kept."""
    try:
        return {
            "series": _value(url, "sum(scrape_samples_scraped)"),
            "down": _value(url, "count(up == 0)"),
            "ranks": _own(url).get(_ALIVE, 0.0),
        }
    except httpx.HTTPError:
        return {"series": 0.0, "down": 0.0, "ranks": 0.0}


def _step_s() -> float:
    """Of the ranks that tell, as the scenario has it."""
    training = load_scenario(str(_SCENARIO)).jobs[0].training
    parts = (training.data_s, training.forward_s, training.backward_s, training.grad_sync_s)
    return sum(parts) + training.optimizer_s + training.checkpoint / training.checkpoint_every


def _outcome(measured: dict[str, Any]) -> Outcome:
    counts, took, failures = measured["counts"], measured["took_ms"], measured["failures"]
    seconds, memory = measured["seconds"], measured["memory"]
    pooled = np.percentile([ms for each in took.values() for ms in each] or [np.nan], (50, 95, 99))
    worst_ms, worst = max(((_p99(each), page) for page, each in took.items()), default=(np.nan, "no page"))
    asked = sum(map(len, took.values()))
    warm_s = min(_WARM_S, _SHARE_MAX * seconds)
    slope = slope_of([point for point in memory if point[0] > warm_s])
    expected = measured["expected scrapes"]
    late = max(0.0, expected - counts["scrapes"])
    made = _RANKS * max(0.0, seconds - _TOLD_EVERY_S) / _step_s()
    goals = {
        "something was dropped": counts["dropped"] == 0,
        "scrapes failed": counts["failed scrapes"] == 0,
        "scrapes were left out": late <= _LATE_MAX * expected,
        "steps were not taken": counts["steps"] >= _TAKEN_LEAST * made,
        "rules failed": counts["failed rules"] == 0,
        "rules were late": _is_seldom(counts, "passes over rules"),
        "detectors failed": counts["failed detectors"] == 0,
        "detectors were late": _is_seldom(counts, "looks of detectors"),
        "answers failed": not failures,
        "not everybody asked to the end": measured["people ended with"] == 0,
        f"{worst} was slow": bool(worst_ms < _GOAL_MS),
        "memory grew": slope is None or slope.is_flat,
        "there were too few series": measured["series"] >= _SERIES,
        "there were too few ranks": measured["ranks"] >= _RANKS,
    }
    missed = [what for what, is_met in goals.items() if not is_met]
    told = (
        f"{'; '.join(missed) + ': ' if missed else ''}{measured['series']:,.0f} series, "
        f"{measured['ranks']:,.0f} ranks, {_PEOPLE} people; dropped: {counts['dropped']:,.0f}; 99 % of the "
        f"answers for what is slowest ({worst}) within {worst_ms:,.0f} ms; of all {asked:,} "
        f"{pooled[0]:,.0f} / {pooled[1]:,.0f} / {pooled[2]:,.0f} ms (50 / 95 / 99 %), failed: "
        f"{sum(failures.values()):,}; memory {slope or 'too short to tell'}; scrapes left out: "
        f"{late:,.0f} of {expected:,.0f}, failed: {counts['failed scrapes']:,.0f}; passes over rules missed: "
        f"{counts['missed passes over rules']:,.0f} of {counts['passes over rules']:,.0f}, failed: "
        f"{counts['failed rules']:,.0f}; looks of detectors missed: "
        f"{counts['missed looks of detectors']:,.0f} of {counts['looks of detectors']:,.0f}, failed: "
        f"{counts['failed detectors']:,.0f}; steps taken: {counts['steps']:,.0f} of {made:,.0f} that "
        f"were to be told; server {measured['cores']:.2f} cores"
    )
    return Outcome(not missed, seconds, told, _more(measured))


def _is_seldom(counts: dict[str, float], what: str) -> bool:
    """That one is missed; and that there are any."""
    return counts[what] > 0 and counts[f"missed {what}"] <= _LATE_MAX * counts[what]


def _p99(took_ms: list[float]) -> float:
    return float(np.percentile(took_ms, 99))


def _more(measured: dict[str, Any]) -> str:
    rows = [
        (page, f"{len(each):,}", *(f"{ms:,.0f}" for ms in np.percentile(each, (50, 95, 99))))
        for page, each in sorted(measured["took_ms"].items(), key=lambda one: -_p99(one[1]))
    ]
    minutes: dict[int, list[float]] = {}
    for t_s, mb in measured["memory"]:
        minutes.setdefault(int(t_s // 300), []).append(mb)
    memory = [(f"{5 * at} to {5 * at + 5}", f"{np.mean(mb):,.0f}") for at, mb in minutes.items()]
    failed = ", ".join(f"{what} ({count})" for what, count in sorted(measured["failures"].items())) or "none"
    return "\n\n".join(
        [
            f"Answers that failed: {failed}. By page, ms:",
            table(("page", "asked", "50 %", "95 %", "99 %"), rows),
            "Memory by minute:",
            table(("minutes", "MB"), memory),
        ]
    )


LOAD: Final = Row(
    "load",
    f"{_SERIES:,} series every {_INTERVAL_S} s, {_RANKS:,} ranks, {_PEOPLE} people on pages, all rules",
    f"nothing dropped, memory flat, 99 % of each page's answers under {_GOAL_MS:.0f} ms",
    3_600.0,
    "s",
    _run,
)
