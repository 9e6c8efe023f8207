"""What Trilens knows of a run and its tracker does not: GPU-hours, how busy the GPUs were, what it cost and
how much of that was of use, and why it went wrong.

Cost, goodput and GPU-hours are the ledger's, once it has booked every hour of the run. What is not known is
not among the figures: a part of the truth would be taken for all of it.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.ledger.answers.goodput import goodput
from trilens.ledger.answers.spending import run_spending
from trilens.lineage.gpu_time import gpu_time
from trilens.model.errors import TrilensError
from trilens.model.ledger import HOUR_MS, as_amount
from trilens.model.run import RunId
from trilens.model.tracked_run import RUN_TAG
from trilens.promql.annotations import quote
from trilens.serve.run_verdicts import OF_VERDICT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.ledger.answers.spending import Spending
    from trilens.ledger.source import LedgerBook
    from trilens.lineage.gpu_time import GpuTime
    from trilens.model.run import RankProcess, RunFacts, Tracker
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.asked_loop import AskedLoop
    from trilens.serve.own_queries import OwnQueries

    Figure = float | str
    Verdicts = Callable[[RunId, Sequence[RankProcess], str | None], Mapping[str, Figure] | None]

log = logging.getLogger(__name__)

GPU_HOURS: Final = "trilens.gpu_hours"
GPU_UTILIZATION: Final = "trilens.gpu_utilization"
COST: Final = "trilens.cost"
COST_CURRENCY: Final = "trilens.cost_currency"
COST_WASTED: Final = "trilens.cost_wasted"
GOODPUT: Final = "trilens.goodput"
PROVISIONAL: Final = "trilens.provisional"  # while an hour of it is open in the ledger
OF_LEDGER: Final = (COST, COST_CURRENCY, COST_WASTED, GOODPUT, PROVISIONAL)

SOON_S: Final = 300.0
LATER_S: Final = 3600.0  # once it is over and booked
# After a run's end: the ledger computes an hour again for a day, and records may come late, from a spool.
LOOKED_AFTER_MS: Final = 26 * HOUR_MS
_TOLD_OF: Final = 0.9  # of its time some signal has to tell, or goodput would be that of the rest
_QUERY_S: Final = 30.0
_LOOKED_AT: Final = 500  # moments of a run at which the GPUs are looked at, however long it took
_SHORTEST_STEP_S: Final = 15
_RUNS: Final = 10_000
_BUSY_KNOWN_S: Final = 300.0
_BUSY_RUNS: Final = 1_000
_SOON_WORKED_OUT: Final = 256  # GPUs
_RUNS_KNOWN_S: Final = 10.0  # how long what programs said of their trackers is not read again


class Runs(Protocol):
    def runs(self, *, run: RunId) -> Sequence[RunFacts]: ...
    def told_trackers(self, *, limit: int) -> list[tuple[RunId, tuple[Tracker, ...]]]: ...
    def processes(self, runs: Sequence[RunId]) -> list[RankProcess]: ...


class Known(NamedTuple):
    """`again_s` is after how many seconds they may be others; None where they will not. What is in `unasked`
    stays as it was last written: nobody could be asked."""

    figures: Mapping[str, Figure]
    again_s: float | None
    unasked: tuple[str, ...] = ()


class RunFigures:
    """What is known of a tracker's run: by its tag, or by what the program itself said of its tracker. But
    whoever may send records could say that of another's run, and whoever may write to a tracker could tag his
    own with another's: with `of_both` both have to say it."""

    def __init__(
        self,
        runs: Runs,
        queries: OwnQueries,
        book: LedgerBook,
        verdicts: Verdicts | None = None,
        *,
        of_both: bool = False,
    ) -> None:
        self._runs = runs
        self._verdicts = verdicts
        self._queries = queries
        self._book = book
        self._of_both = of_both
        self._loop: AskedLoop | None = None
        self._lock = threading.Lock()  # each tracker has a thread of its own
        self._told: dict[tuple[str, str], list[RunId]] = {}  # by what programs said of their trackers
        self._told_s = -math.inf
        self._unproven: set[Tracker] = set()  # that was logged
        self._busy: dict[RunId, tuple[float, float | None]] = {}  # replaced whole: any thread may read it
        self._working: set[RunId] = set()

    def ask_in(self, loop: AskedLoop) -> None:
        """Queries belong to the server's loop, where the connections to another Prometheus are."""
        self._loop = loop

    def of(self, run: TrackedRun) -> Known | None:
        """None where nobody has told of it."""
        ours = self._ours(run)
        processes = self._runs.processes([ours]) if ours is not None else []
        if not processes:
            return None
        now_ms = time.time_ns() // 1_000_000
        spent = run_spending(self._book, processes, now_ms)
        held = gpu_time(processes, now_ms)
        figures = _figures(spent, held, self._utilization(held))
        verdict = self._verdicts(processes[0].run, processes, run.state) if self._verdicts is not None else {}
        unasked = OF_VERDICT if verdict is None else ()
        return Known({**figures, **(verdict or {})}, self._again_s(processes, spent, now_ms), unasked)

    def utilization(self, run: RunId) -> float | None:
        """How busy its GPUs were, of all the time that it held them: as of some minutes ago. Of hundreds it
        takes seconds to work out, for which nobody waits: until then it is None, or as it was."""
        made_s, known = self._busy.get(run, (-math.inf, None))
        if time.monotonic() - made_s <= _BUSY_KNOWN_S:
            return known
        held = gpu_time(self._runs.processes([run]), time.time_ns() // 1_000_000)
        if held is None or len(held.gpus) <= _SOON_WORKED_OUT:
            return self._work_out(run, held)
        with self._lock:
            is_first = run not in self._working
            self._working.add(run)
        if is_first:
            threading.Thread(target=self._work_out, args=(run, held), name="run-figures", daemon=True).start()
        return known

    def _work_out(self, run: RunId, held: GpuTime | None) -> float | None:
        known = None
        try:
            known = self._utilization(held)
        finally:
            with self._lock:
                # Of few it costs little to look again where nobody has measured them yet.
                if known is not None or run in self._working:
                    others = dict([*self._busy.items()][-_BUSY_RUNS:])
                    self._busy = others | {run: (time.monotonic(), known)}
                self._working.discard(run)
        return known

    def _again_s(self, processes: Sequence[RankProcess], spent: Spending | None, now_ms: int) -> float | None:
        ends = [one.ended_ms for one in processes if one.ended_ms is not None]
        if len(ends) < len(processes):
            return SOON_S
        if max(ends) < now_ms - LOOKED_AFTER_MS:
            return None
        is_booked = spent is not None and spent.part is None and not spent.is_provisional
        return LATER_S if is_booked else SOON_S

    def _ours(self, run: TrackedRun) -> RunId | None:
        tagged = RunId(run.tags.get(RUN_TAG, ""))
        if not self._of_both:
            said = [tagged] if tagged else self._said(run.tracker)
            return said[0] if said else None
        if tagged and self._says_so(tagged, run.tracker):
            return tagged
        if run.state != "running":  # a tag may come late
            self._tell_why_not(run, tagged)
        return None

    def _says_so(self, run: RunId, tracker: Tracker) -> bool:
        """Whether the program of that run said that it is this one of its tracker."""
        return any(_is_one(said, tracker) for one in self._runs.runs(run=run) for said in one.trackers)

    def _tell_why_not(self, tracked: TrackedRun, tagged: RunId) -> None:
        """Once of each."""
        run = tagged or next(iter(self._said(tracked.tracker)), None)
        if run is None or tracked.tracker in self._unproven or len(self._unproven) >= _RUNS:
            return
        self._unproven.add(tracked.tracker)
        if tagged:
            only = "the program of the run that it is tagged with does not say so"
            hint = "that program has to tell it, within its tracker's run"
        else:
            only = "only the program says which run of its tracker it is"
            hint = f"tag that with {RUN_TAG}={run}"
        told = {"run": run, "tracker": tracked.tracker.system, "hint": hint}
        log.warning(f"figures of a run are not written: {only}", extra=told)

    def _said(self, tracker: Tracker) -> list[RunId]:
        """The runs whose programs said that they are this one, the latest first."""
        with self._lock:
            if time.monotonic() - self._told_s > _RUNS_KNOWN_S:
                told: defaultdict[tuple[str, str], list[RunId]] = defaultdict(list)
                for run, trackers in self._runs.told_trackers(limit=_RUNS):
                    for one in trackers:
                        told[one.system, one.run].append(run)
                self._told = dict(told)
                self._told_s = time.monotonic()
            return self._told.get((tracker.system, tracker.run), [])

    def _utilization(self, held: GpuTime | None) -> float | None:
        loop = self._loop
        if loop is None or held is None or held.silent or held.to_ms - held.from_ms < 1000:
            return None
        seconds = (held.to_ms - held.from_ms) // 1000
        names = quote("|".join(map(re.escape, sorted(held.gpus))))
        step = max(_SHORTEST_STEP_S, seconds // _LOOKED_AT)
        query = (
            f"avg(avg_over_time(trilens:gpu_utilization:ratio{{UUID=~{names}}}[{seconds}s:{step}s] "
            f"@ {held.to_ms / 1000:.3f}))"
        )
        try:
            found = loop.answer(self._queries.vector(query), _QUERY_S)
        except TrilensError as e:
            log.info("GPU utilisation of a run is not known", extra={"error": str(e)})
            return None
        return round(found[0].value, 4) if found and math.isfinite(found[0].value) else None


def _is_one(said: Tracker, tracker: Tracker) -> bool:
    """An id of W&B is its maker's choice, and one only within a project: a program tells ENTITY/PROJECT, and
    where the run is in the tracker ends in that."""
    if (said.system, said.run) != (tracker.system, tracker.run):
        return False
    return tracker.system != "wandb" or ("/" in said.where and tracker.where.endswith(f"/{said.where}"))


def _figures(spent: Spending | None, held: GpuTime | None, utilization: float | None) -> dict[str, Figure]:
    """The ledger's GPU-hours where it has them all: it knows parts of GPUs, and when a pod held one without a
    process."""
    told: dict[str, Figure | None] = {GPU_UTILIZATION: utilization}
    if spent is not None and spent.part is None:
        told |= _booked(spent)
    elif held is not None and not held.silent:
        told[GPU_HOURS] = round(held.seconds / 3600, 4)
    return {name: value for name, value in told.items() if value is not None}


def _booked(spent: Spending) -> dict[str, Figure | None]:
    useful, told, _ = goodput(spent.total)
    return {
        GPU_HOURS: round(spent.total.gpu_ms / HOUR_MS, 4),
        COST: _amount(spent.quanta),
        COST_CURRENCY: spent.total.currency if spent.quanta is not None else None,
        COST_WASTED: _amount(spent.for_nothing),
        GOODPUT: round(useful, 4) if useful is not None and (told or 0) >= _TOLD_OF else None,
        PROVISIONAL: "true" if spent.is_provisional else "false",
    }


def _amount(quanta: int | None) -> float | None:
    return round(float(as_amount(quanta)), 4) if quanta is not None else None
