"""Makes scenes of what the server knows: GPUs, runs, workloads, pods, nodes and events, at one moment."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from trilens.detect.scene import NodeView, Offender, Scene
from trilens.model.errors import TrilensError
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import Tail
from trilens.serve.detection.jobs import Known, jobs_of
from trilens.serve.detection.listening import Listening
from trilens.serve.detection.places import GpusSeen, Places
from trilens.serve.detection.pods_seen import PodsSeen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.detect.records import RankRecords
    from trilens.model.event import EventRecord
    from trilens.model.program import Program
    from trilens.model.run import RankProcess, RunFacts, RunId, StepRecord
    from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey
    from trilens.resolve.present import ClusterState
    from trilens.serve.detection.gpu_window import GpuWindow
    from trilens.serve.detection.scraped_ranks import ScrapedRanks
    from trilens.serve.run_programs import HeardProcesses
    from trilens.serve.run_workloads import ProcessKey

_T = TypeVar("_T")

_EVENTS_MS: Final = 20 * 60_000
_MOST_EVENTS: Final = 2_000  # a broken GPU may write thousands of lines an hour
_TAKEN_UP: Final = 1_000  # programs: with more than that, they are learnt anew
_STEPS: Final = 200
_OFFENDERS_EVERY_MS: Final = 5 * 60_000
_OFFENDERS_MS: Final = 30 * 86_400_000


class PresentClusters(Protocol):
    """Thread-safe."""

    def present(self) -> Sequence[ClusterState]:
        """Of those that were read through. Raises TrilensError."""


class HardwareFaults(Protocol):
    """Thread-safe."""

    def between(self, from_ms: int, to_ms: int, *, limit: int) -> Sequence[EventRecord]: ...

    def hardware_faults(self, since_ms: int) -> Sequence[tuple[str, str, GpuUuid | None, int, int]]:
        """Node, GPU or None for the node as a whole, in how many hours there were any, when the last was."""


class RunsKept(Protocol):
    """Thread-safe."""

    def runs(self, *, run: RunId | None = None) -> Sequence[RunFacts]: ...

    def tails(self, wanted: Sequence[Tail]) -> Sequence[StepRecord]: ...


@dataclass(frozen=True, slots=True)
class Sources:
    """Whom scenes are made of; None where this server has none."""

    window: GpuWindow
    scraped: ScrapedRanks
    records: RankRecords
    heard: HeardProcesses
    runs: RunsKept
    members: Callable[[], Mapping[ProcessKey, Membership] | None]  # None: nobody knows yet
    gpus: Callable[[], GpusSeen]
    events: HardwareFaults
    servers: Callable[[], Sequence[Program]]
    clusters: PresentClusters | None = None
    machines: PresentClusters | None = None


class Scenes:
    """Not thread-safe."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._places = Places()
        self._pods = PodsSeen()
        self._listening = Listening()
        self._facts: dict[RunId, RunFacts | None] = {}  # of runs that this scene has, or the last one had
        self._facts_before: dict[RunId, RunFacts | None] = {}
        self._offenders: tuple[int, list[Offender]] = (-_OFFENDERS_EVERY_MS, [])
        self._before: dict[str, Sequence[ClusterState]] = {}
        self._trouble: dict[str, str] = {}

    @property
    def trouble(self) -> Mapping[str, str]:
        """What could not be asked for the last scene, and why."""
        return dict(self._trouble)

    def take_up(self) -> None:
        """The last steps of programs that live, so that a restart does not unlearn how regular they are."""
        alive = [
            one for one in self._sources.heard.processes() if one.ending is None and one.step is not None
        ]
        latest = sorted(alive, key=lambda one: one.heard_ms)[-_TAKEN_UP:]
        tails = [Tail(one.run, one.rank, one.attempt, max((one.step or 0) - _STEPS, 0)) for one in latest]
        steps = (self._ask("steps", lambda: self._sources.runs.tails(tails)) if tails else None) or ()
        by_life: defaultdict[tuple[RunId, int, int], list[StepRecord]] = defaultdict(list)
        for step in sorted(steps, key=lambda one: one.n):
            by_life[step.run, step.rank, step.attempt].append(step)
        for process in latest:
            if told := by_life.get((process.run, process.rank, process.attempt)):
                self._sources.records.take(RunCommit(steps=told), process.heard_ms)

    def scene(self, now_ms: int) -> Scene:
        """What cannot be asked is missing in it."""
        self._trouble = {}
        self._facts_before, self._facts = self._facts, {}
        sources = self._sources
        sources.window.look(now_ms)
        if sources.window.trouble is not None:
            self._trouble["telemetry"] = sources.window.trouble
        scraped = self._ask("metrics of programs", lambda: sources.scraped.look(now_ms))
        watched = self._present("clusters", sources.clusters)
        local = self._present("machines", sources.machines)
        pods = self._pods.look(watched)
        processes = sources.heard.processes()
        keys = sources.window.window.keys
        workloads = {**self._pods.workloads, **_local_workloads(local)}
        places = self._places.look(keys, sources.gpus(), workloads, processes)
        rows = {uuid: row for row, (uuid, part) in enumerate(keys) if not part}
        self._listening.begin()
        ranks = sources.records.processes(
            processes, now_ms, lambda process: _row_of(process, rows), self._listening.of
        )
        members = sources.members()
        known = Known(
            now_ms,
            [*watched, *local],
            {state.cluster for state in watched},
            pods,
            places,
            ranks if members is not None else {},
            scraped or (),
            members or {},
            self._servers(),
            self._facts_of,
        )
        return Scene(
            now_ms,
            sources.window.window.telemetry(places),
            jobs_of(known),
            [
                NodeView(
                    node.cluster,
                    node.node,
                    node.is_ready,
                    node.place.rack or "",
                    node.place.switch or "",
                    node.place.nvlink_domain or "",
                )
                for state in watched
                for node in state.nodes
            ],
            self._events(now_ms),
            offenders=self._offenders_at(now_ms),
        )

    def _ask(self, what: str, question: Callable[[], _T]) -> _T | None:
        try:
            return question()
        except TrilensError as e:
            self._trouble[what] = str(e)
            return None

    def _present(self, what: str, clusters: PresentClusters | None) -> Sequence[ClusterState]:
        """As it was, where it cannot be asked: what is not seen for once has not gone."""
        if clusters is None:
            return ()
        found = self._ask(what, clusters.present)
        if found is not None:
            self._before[what] = found
        return self._before.get(what, ())

    def _servers(self) -> set[WorkloadKey]:
        return {program.workload for program in self._sources.servers()}

    def _facts_of(self, run: RunId) -> RunFacts | None:
        """As told since the start, else as it was told before: asked once for as long as scenes have it."""
        told = self._sources.records.facts(run)
        if told is not None:
            return told
        if run in self._facts_before:
            self._facts[run] = self._facts_before[run]
        elif run not in self._facts:
            found = self._ask("runs", lambda: self._sources.runs.runs(run=run))
            self._facts[run] = found[0] if found else None
        return self._facts[run]

    def _events(self, now_ms: int) -> Sequence[EventRecord]:
        events = self._sources.events
        found = self._ask("events", lambda: events.between(now_ms - _EVENTS_MS, now_ms, limit=_MOST_EVENTS))
        return found or ()

    def _offenders_at(self, now_ms: int) -> Sequence[Offender]:
        asked_ms, known = self._offenders
        if now_ms - asked_ms < _OFFENDERS_EVERY_MS:
            return known
        events = self._sources.events
        found = self._ask("faults", lambda: events.hardware_faults(now_ms - _OFFENDERS_MS))
        if found is not None:
            known = [Offender(*one) for one in found]
        self._offenders = (now_ms, known)
        return known


def _local_workloads(states: Sequence[ClusterState]) -> dict[PodKey, WorkloadKey]:
    return {
        pod.pod: workload.record.key
        for state in states
        for workload in state.workloads
        for pod in workload.pods
    }


def _row_of(process: RankProcess, rows: Mapping[str, int]) -> int | None:
    return next((rows[uuid] for uuid in process.gpus if uuid in rows), None)
