"""`run.barrier()`: the ranks of a group meet, and the ones that do not come are named.

It never stops the program: it returns who is missing and leaves it to the caller what to do then.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.errors import RanksMissing
from trilens.sdk.distributed.arrivals import Arrivals
from trilens.sdk.distributed.bounded import within
from trilens.sdk.distributed.monitored import MonitoredBarrier
from trilens.sdk.distributed.naming import MOST_NAMED, ranks_text
from trilens.sdk.distributed.process_group import job_store, members_of, own_connection, torch_distributed
from trilens.sdk.distributed.whereabouts import last_seen
from trilens.sdk.guard import describe

if TYPE_CHECKING:
    from trilens.sdk.distributed.process_group import Members, Store
    from trilens.sdk.recorder import Recorder

DEFAULT_TIMEOUT_S: Final = 60.0  # well below the 600 or 1800 s after which torch.distributed gives up
_PHASE: Final = "barrier"  # of the step in which it is called
_GRACE_S: Final = 5.0  # for a store that answers late


class Missing(tuple[int, ...]):
    """The ranks that did not come, in order; empty when all did.

    `unknown` says why nobody can tell who came: then it is empty too, and not a promise that all are there.
    """

    unknown: str | None = None


class _Outcome(NamedTuple):
    missing: tuple[int, ...]
    by: str  # monitored_barrier or store


class _Meetings:
    """Those of one group. Counted on when a program sets its groups up anew: maybe on the same store."""

    def __init__(self, dist: Any, members: Members, store: Store, count: int) -> None:
        self._dist = dist
        self.members = members
        self.job_store = store
        self.process = os.getpid()
        self.store: Store = own_connection(store, len(members.ranks)) or store
        self.count = count
        self.once_missing: set[int] = set()
        self._arrivals = Arrivals(self.store, members.name, members.ranks, members.me)
        self._monitored: MonitoredBarrier | None = None

    def meet(self, meeting: int, timeout_s: float, *, monitored: bool) -> _Outcome:
        deadline_s = time.monotonic() + timeout_s
        self._arrivals.arrive(meeting)
        if monitored and self._monitored is not None and self._monitored.usable():
            missing = self._monitored.hold(timeout_s)
            if missing == ():
                self._arrivals.wait(meeting, deadline_s)
                return _Outcome((), "monitored_barrier")
            self._monitored = None
            if missing is not None and time.monotonic() >= deadline_s:
                self._arrivals.give_up(meeting, missing)
                return _Outcome(missing, "monitored_barrier")
            # Broken before its time, as by a rank that died: the store shows who comes until time is up.
        missing = self._arrivals.wait(meeting, deadline_s)
        all_met = not missing and not self._arrivals.was_given_up(meeting)  # else this rank came too late
        if all_met and monitored and self.members.backend == "gloo":
            self._monitored = MonitoredBarrier(self._dist, self.store, self.members, meeting)
        return _Outcome(missing, "store")


# Of this process, not of a run: two runs in it must not take each other's meetings for their own.
_ALL_MEETINGS: Final[dict[tuple[str, tuple[int, ...]], _Meetings]] = {}


def _meetings_of(dist: Any, members: Members) -> _Meetings:
    store = job_store(dist)
    if store is None:
        raise RuntimeError(f"the {members.backend} backend has no store")
    key = (members.name, members.ranks)
    known = _ALL_MEETINGS.get(key)
    if known is not None and known.process != os.getpid():
        raise RuntimeError("a forked child shares its parent's connections and has no barriers")
    if known is None or known.job_store is not store:
        known = _ALL_MEETINGS[key] = _Meetings(dist, members, store, known.count if known else 0)
    return known


def barrier(
    recorder: Recorder,
    timeout_s: float | None = None,
    *,
    group: Any | None = None,
    monitored: bool = True,
    raise_missing: bool = False,
) -> Missing:
    """Waits until all ranks of the group are here, at most so long. Raises only RanksMissing, if asked to."""
    if recorder.silent:  # switched off, over, or a forked child: nothing happens then
        nobody = Missing()
        nobody.unknown = "this run tells nothing"
        return nobody
    began_s = time.monotonic()
    in_step = recorder.in_step
    if in_step:
        recorder.enter_phase(_PHASE)
    try:
        limit_s = DEFAULT_TIMEOUT_S if timeout_s is None else max(0.0, float(timeout_s))
        missing = _hold(recorder, limit_s, group, monitored=monitored)
    except Exception as error:  # noqa: BLE001 - a store that died is not the program's trouble
        missing = Missing()
        missing.unknown = describe(error)
        recorder.guard.lost("barrier", why=missing.unknown)
    finally:
        if in_step:
            recorder.leave_phase(_PHASE)
    recorder.gauge(
        "trilens_barrier_wait_seconds",
        "How long this rank waited at its last barrier.",
        time.monotonic() - began_s,
    )
    if raise_missing and (missing or missing.unknown):
        raise RanksMissing(missing, missing.unknown)
    return missing


def _hold(recorder: Recorder, timeout_s: float, group: Any | None, *, monitored: bool) -> Missing:
    dist = torch_distributed()
    members = members_of(dist, group) if dist is not None else None
    if members is None or len(members.ranks) < 2:
        return Missing()
    meetings = _meetings_of(dist, members)
    meetings.count += 1
    outcome = within(
        timeout_s + _GRACE_S,
        lambda: meetings.meet(meetings.count, timeout_s, monitored=monitored),
        what="job's store",
    )
    _tell(recorder, meetings, outcome, timeout_s)
    return Missing(sorted(outcome.missing))


def _tell(recorder: Recorder, meetings: _Meetings, outcome: _Outcome, timeout_s: float) -> None:
    missing = sorted(outcome.missing)
    recorder.gauge(
        "trilens_barrier_missing_ranks",
        "How many ranks did not come to this rank's last barrier in time.",
        len(missing),
    )
    meetings.once_missing.update(missing)
    for rank in meetings.once_missing:
        recorder.gauge(
            "trilens_barrier_rank_missing",
            "1 for a rank that did not come to the last barrier in time, 0 for one that has come again.",
            float(rank in missing),
            {"missing_rank": str(rank)},
        )
    if not missing:
        return
    seen = recorder.guard.run("barrier", last_seen, meetings.store, missing[:MOST_NAMED]) or []
    text = f"{ranks_text(missing)} did not come to barrier {meetings.count} within {timeout_s:g} s"
    text = "; ".join((text, *(one.text() for one in seen)))
    data = {
        "missing": missing,
        "barrier": meetings.count,
        "group": meetings.members.name,
        "timeout_s": timeout_s,
        "by": outcome.by,
        "last_seen": {str(one.rank): {"step": one.step, "phase": one.phase} for one in seen},
    }
    recorder.note("barrier", text, data=data, step=recorder.step)
    recorder.guard.say(f"{meetings.members.name} barrier {meetings.count}", text, level="warning")
