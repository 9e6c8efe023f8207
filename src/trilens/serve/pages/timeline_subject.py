"""Whom a timeline is about: a workload by its path, and the runs that its pods trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.serve.access.seen_runs import RunsSeen
from trilens.serve.access.seen_workloads import seen_workloads
from trilens.serve.access.sight import WHOLE
from trilens.serve.pages.lately import Lately
from trilens.serve.pages.timeline_money import Life
from trilens.serve.run_workloads import workloads_of
from trilens.serve.workloads import workload_named
from trilens.store.step_grids import RunSeen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.lineage.source import RunSource
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import WorkloadKey
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.store.step_grids import StepGrids
    from trilens.store.workloads import WorkloadHistory

_MINUTE_MS: Final = 60_000  # clocks differ
_KEPT_S: Final = 4.0
_RUNS_KEPT_S: Final = 15.0  # of a thousand pods it takes longer to find out than all else


@dataclass(frozen=True, slots=True)
class Subject:
    history: WorkloadHistory
    runs: Sequence[RunSeen]  # the earliest first
    life: Life

    @property
    def key(self) -> WorkloadKey:
        return self.history.record.key


class Subjects:
    """Thread-safe. What was found holds for a moment: a page asks several things about it at once."""

    def __init__(self, workloads: Workloads, runs: RunSource, grids: StepGrids) -> None:
        self.workloads = workloads
        self.runs = runs
        self.grids = grids
        self._every = RunsSeen(runs, workloads)
        self._found = Lately[Subject](_KEPT_S)
        self._trained = Lately[Sequence[RunSeen]](_RUNS_KEPT_S)

    def find(
        self, wanted: Mapping[str, str], now_ms: int, guard: QueryGuard, sight: Sight = WHOLE
    ) -> Subject:
        """Raises NotFound."""
        path = tuple(wanted[part] for part in ("cluster", "namespace", "kind", "name"))
        return self._found.of((sight, path), lambda: self._find(wanted, now_ms, guard, sight))

    def _find(self, wanted: Mapping[str, str], now_ms: int, guard: QueryGuard, sight: Sight) -> Subject:
        history = workload_named(seen_workloads(self.workloads, sight), wanted, now_ms, guard)
        every: list[MembershipInterval | PhaseInterval] = [*history.members, *history.phases]
        to_ms = max(one.to_ms if one.to_ms is not None else now_ms for one in every)
        life = Life(min(one.from_ms for one in every), to_ms)
        runs = self._trained.of(
            (sight, history.record.key), lambda: self._seen(self._runs(history, life, guard), sight, guard)
        )
        return Subject(history, runs, life)

    def _seen(self, found: Sequence[RunSeen], sight: Sight, guard: QueryGuard) -> Sequence[RunSeen]:
        """A process that says that it is in an own pod shows nobody another's run."""
        shown = self._every.shown(sight, [one.run for one in found], guard)
        return [one for one in found if one.run in shown]

    def _runs(self, history: WorkloadHistory, life: Life, guard: QueryGuard) -> Sequence[RunSeen]:
        begin_ms, end_ms = life.from_ms - _MINUTE_MS, life.to_ms + _MINUTE_MS
        pods = [one.membership.pod for one in history.members]
        named = ((pod.namespace, pod.name, pod.uid) for pod in pods)
        found = self.grids.runs_of_pods(history.record.key.cluster, named, begin_ms, end_ms, guard)
        if found:
            return found
        # Without Kubernetes its members are processes: which ones, only their starts tell.
        nodes = {one.node for one in history.members if one.node}
        near = self.grids.runs_without_pods(nodes, begin_ms, end_ms, guard)
        processes = self.runs.processes([one.run for one in near], guard=guard)
        of_runs = workloads_of(processes, self.workloads, guard)
        return [one for one in near if history.record.key in of_runs.get(one.run, ())]
