"""One round over 10,000 GPUs on one core: a scene is made, all detectors look at it, and every group of every
file of the rule pack is evaluated, in one process and over the same simulated fleet.

    python -m bench.one_round DATA GPUS        # that process alone: prints JSON

The peer is a Prometheus that has the same series and evaluates the same files, in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import resource
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bench import round_peer
from bench.load import encode_labels
from bench.round_fleet import FedStore
from bench.round_peer import PeerResult, Snapshot
from trilens.alert.manager import RuleManager
from trilens.alert.rule import AlertingRule, RecordingRule
from trilens.alert.rule_file import parse_rules
from trilens.collect.current_series import CurrentSeries
from trilens.detect.detectors import all_detectors
from trilens.detect.watch import Watch
from trilens.model.alert import AlertState
from trilens.model.labels import METRIC_NAME
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest, stale_mask
from trilens.rules import rule_files
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.detection.finding_series import finding_samples
from trilens.serve.rules import BUILTIN
from trilens.serve.workload_metrics import as_series
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.alert.evaluation import GroupState

CORE: Final = "0"
ROUNDS: Final = 7
_WARM_S: Final = 600  # of the fleet's time: runs are known then, and most alerts fire that ever will
_FEED_S: Final = 30
_PASSES: Final = 3  # over the rules meanwhile: the first makes the series
_LOOK_S: Final = 5
_SETTLING: Final = 2  # rounds before those that count
_SNAPSHOT: Final = "snapshot.pickle"
_SNAPSHOT_MS: Final = 90_000  # what has said nothing for so long is left out
_INTERVAL: Final = timedelta(minutes=1)
_MOST_MEMORY: Final = 1 << 30  # for recent samples: no rule of the pack reads further back than they go


@dataclass(frozen=True)
class RoundResult:
    """Seconds are of one core. `cpu_s` is of all threads until what was recorded is on disk, too."""

    gpus: int
    jobs: int
    ranks_that_tell: int
    series: int  # scraped, and told of workloads and objects
    files: int
    groups: int
    recording_rules: int
    alerting_rules: int
    recorded: int  # series of a round
    pending: int
    firing: int
    findings: int
    failures: int  # of rules and detectors
    wall_s: float  # the median round
    worst_s: float
    cpu_s: float
    by_part: dict[str, float]  # CPU, the median of each
    memory_mb: float
    peer: PeerResult | None = None

    @property
    def rules_s(self) -> float:
        return sum(took_s for part, took_s in self.by_part.items() if part.startswith("rules: "))

    @property
    def detectors_s(self) -> float:
        return sum(took_s for part, took_s in self.by_part.items() if part.startswith("detector "))


def run(out: Path, *, gpus: int) -> RoundResult:
    out.mkdir(parents=True, exist_ok=True)
    data = out / "round"
    command = ["taskset", "-c", CORE, sys.executable, "-m", "bench.one_round", str(data), str(gpus)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found = RoundResult(**json.loads(done.stdout.splitlines()[-1]))
    with (data / _SNAPSHOT).open("rb") as file:
        snapshot: Snapshot = pickle.load(file)
    return RoundResult(**{**asdict(found), "peer": round_peer.evaluate(out, snapshot)})


class Timing:
    """Of parts of a round."""

    def __init__(self) -> None:
        self.took_s: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        began_s = time.process_time()
        yield
        self.took_s[part].append(time.process_time() - began_s)

    def medians(self) -> dict[str, float]:
        return {part: round(median(took_s), 4) for part, took_s in self.took_s.items()}


class Round:
    def __init__(self, store: Store, fed: FedStore, loop: AskedLoop) -> None:
        self._store = store
        self._fed = fed
        self._scenes = fed.scenes(loop)
        self._findings = CurrentSeries(store)
        self.watch = Watch(all_detectors())
        groups = [
            group
            for entry in rule_files()
            for group in parse_rules(entry.read_text(encoding="utf-8"), BUILTIN / entry.name, _INTERVAL)
        ]
        self._manager = RuleManager(groups, store, store)
        self.states = self._manager.states()
        self.jobs = 0

    def go(self, timing: Timing) -> None:
        now_ms = self._fed.world.now_ms
        with timing.of("scene"):
            scene = self._scenes.scene(now_ms)
        if self._scenes.trouble:
            raise RuntimeError(f"a scene lacks something: {self._scenes.trouble}")
        self.jobs = len(scene.jobs)
        with timing.of("findings told"):
            began_s = time.process_time()
            self.watch.look(scene)
            looked_s = time.process_time() - began_s
            self._findings.write(as_series(finding_samples(self.watch.open)), now_ms)
        timing.took_s["findings told"][-1] -= looked_s
        for code, took_s in self.watch.took_s.items():
            timing.took_s[f"detector {code}"].append(took_s)
        timing.took_s["watch"].append(looked_s - sum(self.watch.took_s.values()))
        self.rules(timing)

    def rules(self, timing: Timing) -> None:
        for state in self.states:
            with timing.of(f"rules: {state.group.name}"):
                self._manager.evaluate(state, self._fed.world.now_ms)

    def stop(self) -> None:
        self._manager.stop()


def measure(data: Path, gpus: int, *, warm_s: int = _WARM_S, rounds: int = ROUNDS) -> RoundResult:
    with (
        closing(Store.open(StoreOptions(data, recent_bytes=_MOST_MEMORY))) as store,
        _loop() as loop,
    ):
        return _measured(store, loop, data, gpus, warm_s, rounds)


@contextmanager
def _loop() -> Iterator[AskedLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield AskedLoop(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _measured(store: Store, loop: AskedLoop, data: Path, gpus: int, warm_s: int, rounds: int) -> RoundResult:
    start_ms = (time.time_ns() // 1_000_000 - 1000 * (warm_s + 60)) // 60_000 * 60_000
    fed = FedStore(store, gpus, start_ms)
    whole = Round(store, fed, loop)
    feeds = warm_s // _FEED_S
    for number in range(feeds):
        fed.go_on(_FEED_S)
        if (number + 1) % max(1, feeds // _PASSES) == 0:
            whole.rules(Timing())
        _tell(f"{_FEED_S * (number + 1)} of {warm_s} s of the fleet")
    timing, walls, cpus = Timing(), [], []
    for number in range(_SETTLING + rounds):
        fed.go_on(_LOOK_S)
        if number == _SETTLING:
            timing = Timing()
        timing.took_s["steps taken in"].append(fed.taken_s)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        whole.go(timing)
        took_s = time.perf_counter() - began_s + fed.taken_s
        store.durable().result(120)
        if number >= _SETTLING:
            walls.append(took_s)
            cpus.append(time.process_time() - began_cpu_s + fed.taken_s)
        _tell(f"round {number + 1 - _SETTLING}: {took_s:.2f} s")
    found = _result(whole, fed, gpus, (walls, cpus), timing)
    _tell(str(found))
    snapshot = _snapshot(store, fed.world.now_ms, whole.states)
    with (data / _SNAPSHOT).open("wb") as file:
        pickle.dump(snapshot, file)
    whole.stop()
    return RoundResult(**{**asdict(found), "series": len(snapshot.labels)})


def _result(
    whole: Round, fed: FedStore, gpus: int, took: tuple[list[float], list[float]], timing: Timing
) -> RoundResult:
    states = whole.states
    rules = [rule for state in states for rule in state.rules]
    alerts = [alert for rule in rules if rule.active is not None for alert in rule.active.alerts()]
    failed = [f"{rule.rule.name}: {rule.last_error}" for rule in rules if rule.health == "err"]
    for text in failed:
        _tell(f"failed: {text}")
    walls, cpus = took
    return RoundResult(
        gpus=gpus,
        jobs=whole.jobs,
        ranks_that_tell=len(fed.world.telling.ranks),
        series=0,
        files=len(rule_files()),
        groups=len(states),
        recording_rules=sum(isinstance(rule.rule, RecordingRule) for rule in rules),
        alerting_rules=sum(isinstance(rule.rule, AlertingRule) for rule in rules),
        recorded=sum(state.samples for state in states),
        pending=sum(alert.state is AlertState.PENDING for alert in alerts),
        firing=sum(alert.state is AlertState.FIRING for alert in alerts),
        findings=len(list(whole.watch.open)),
        failures=len(failed) + sum(whole.watch.failures.values()),
        wall_s=median(walls),
        worst_s=max(walls),
        cpu_s=median(cpus),
        by_part=timing.medians(),
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )


def _snapshot(store: Store, at_ms: int, states: list[GroupState]) -> Snapshot:
    """All that no rule recorded: the last sample of each series that has not ended, and the one before it."""
    recorded = {rule.rule.name for state in states for rule in state.rules} | {"ALERTS", "ALERTS_FOR_STATE"}
    selector = (Matcher(METRIC_NAME, "!~", "|".join(recorded)), Matcher(METRIC_NAME, "!=", ""))
    guard = QueryGuard(timeout_s=3600, max_samples=sys.maxsize, max_series=sys.maxsize)
    found = store.select(SelectRequest(selector, at_ms - _SNAPSHOT_MS, at_ms), guard)
    offsets, ended = found.samples.offsets, stale_mask(found.samples.v)
    labels, last, before, apart_ms = [], [], [], []
    for row in range(len(found.labels)):
        begin, end = int(offsets[row]), int(offsets[row + 1])
        named = found.labels.labels(row)
        if end == begin or ended[end - 1]:
            continue
        labels.append((named[METRIC_NAME], encode_labels(sorted(named.items()))))
        last.append(found.samples.v[end - 1])
        before.append(found.samples.v[max(end - 2, begin)])
        apart_ms.append(found.samples.t[end - 1] - found.samples.t[max(end - 2, begin)])
    return Snapshot(at_ms, labels, np.array(last), np.array(before), np.array(apart_ms, np.float64))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    found: dict[str, Any] = asdict(measure(Path(sys.argv[1]), int(sys.argv[2])))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
