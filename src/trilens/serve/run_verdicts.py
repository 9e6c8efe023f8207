"""Why a run went wrong, for its tracker: of runs that ended badly, or of which something is found now."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from trilens.diagnose.case import Case
from trilens.diagnose.walk import why
from trilens.model.errors import TrilensError
from trilens.model.run import Ending
from trilens.model.verdict import TELL_FROM, Layer
from trilens.serve.cases.wish import Wish, whole_name
from trilens.serve.run_workloads import workloads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trilens.model.finding import FindingInterval
    from trilens.model.run import RankProcess, RunId
    from trilens.model.verdict import Verdict
    from trilens.model.workload import WorkloadKey
    from trilens.serve.asked_loop import AskedLoop
    from trilens.serve.cases.gathering import Cases
    from trilens.serve.event_view import MembershipsOfPods

log = logging.getLogger(__name__)

VERDICT: Final = "trilens.verdict"
VERDICT_CONFIDENCE: Final = "trilens.verdict_confidence"
VERDICT_FIX: Final = "trilens.verdict_fix"
OF_VERDICT: Final = (VERDICT, VERDICT_CONFIDENCE, VERDICT_FIX)

_ENDED_BADLY: Final = ("failed", "killed")  # as a tracker calls it
_LOOKED_AT_MS: Final = 3_600_000  # before the end
_AFTER_MS: Final = 300_000  # what is told of an end comes a little later: events, a pod's last state
_GATHER_S: Final = 60.0
_REMEMBERED: Final = 1_000
_LONGEST: Final = 2_000  # characters of a tag: MLflow takes 5,000


class RunVerdicts:
    """Asked by the threads of trackers."""

    def __init__(
        self,
        cases: Cases,
        memberships: MembershipsOfPods,
        open_findings: Callable[[], Iterable[FindingInterval]],
    ) -> None:
        self._cases = cases
        self._memberships = memberships
        self._open_findings = open_findings
        self._loop: AskedLoop | None = None
        self._lock = threading.Lock()
        # Of runs that are over: what an agent or a pod said of their end is soon gone.
        self._last: OrderedDict[tuple[RunId, int], Mapping[str, float | str]] = OrderedDict()

    def ask_in(self, loop: AskedLoop) -> None:
        """Cases are gathered in the server's loop, where the connections are."""
        self._loop = loop

    def of(
        self, run: RunId, processes: Sequence[RankProcess], state: str | None
    ) -> Mapping[str, float | str] | None:
        """By name. Empty where nothing is wrong or nobody can tell why, None where it could not be asked."""
        if not self._is_wrong(run, processes, state):
            return {}
        ended_ms = _ended_ms(processes)
        if ended_ms is not None and (known := self._last.get((run, ended_ms))):
            return known
        workload = next(iter(workloads_of(processes, self._memberships).get(run, ())), None)
        if workload is None:  # of a program on a machine that nobody watches there is no case
            return {}
        try:
            told = verdict_figures(self._verdicts(workload, ended_ms))
        except TrilensError as e:
            log.info("why a run went wrong could not be asked", extra={"run": run, "error": str(e)})
            return None
        if told and ended_ms is not None:
            with self._lock:
                self._last[run, ended_ms] = told
                while len(self._last) > _REMEMBERED:
                    self._last.popitem(last=False)
        return told

    def _is_wrong(self, run: RunId, processes: Sequence[RankProcess], state: str | None) -> bool:
        if state in _ENDED_BADLY:
            return True
        latest = max((one.attempt for one in processes), default=0)  # one that was mended is over
        endings = {one.ending for one in processes if one.attempt == latest}
        if state != "finished" and not endings.isdisjoint((Ending.FAILED, Ending.LOST)):
            return True
        return any(one.finding.subject.run == run for one in self._open_findings() if one.ended_ms is None)

    def _verdicts(self, workload: WorkloadKey, ended_ms: int | None) -> list[Verdict]:
        loop = self._loop
        if loop is None:
            return []
        now_ms = time.time_ns() // 1_000_000
        to_ms = now_ms if ended_ms is None else min(now_ms, ended_ms + _AFTER_MS)
        kept = self._cases.read(
            Wish(whole_name(workload), None, to_ms - _LOOKED_AT_MS - _AFTER_MS, to_ms), None
        )
        return why(Case(loop.answer(self._cases.complete(kept), _GATHER_S)))


def verdict_figures(verdicts: Iterable[Verdict]) -> dict[str, float | str]:
    """Of the surest that somebody can tell. That less is seen than could be is no reason to fail."""
    for one in verdicts:
        if one.confidence >= TELL_FROM and one.fix and one.layer not in (Layer.TELEMETRY, Layer.UNKNOWN):
            steps = one.fix if len(one.fix) == 1 else [f"{n}. {step}" for n, step in enumerate(one.fix, 1)]
            return {
                VERDICT: f"{one.cause}: {one.text}"[:_LONGEST],
                VERDICT_CONFIDENCE: one.confidence,
                VERDICT_FIX: " ".join(steps)[:_LONGEST],
            }
    return {}


def _ended_ms(processes: Sequence[RankProcess]) -> int | None:
    """None while one of them lives."""
    ends = [one.ended_ms for one in processes if one.ended_ms is not None]
    return max(ends) if ends and len(ends) == len(processes) else None
