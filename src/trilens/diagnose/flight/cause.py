"""From the dumps of all ranks to one verdict: who, in what, why, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.flight.differences import at_place, first_difference, left_out, places
from trilens.diagnose.flight.fixes import FIXES
from trilens.diagnose.flight.flight_verdict import Doing, FlightVerdict, Reason
from trilens.diagnose.flight.reading import DUMP_ALL
from trilens.diagnose.flight.telling import SHOWN, Telling, capital, located
from trilens.diagnose.flight.timeline import Timelines, own_frame
from trilens.diagnose.flight.waits import Deed, Wait, find_circle, find_roots, find_waits
from trilens.diagnose.flight.wording import has, waits
from trilens.model.rank_names import ranks_name
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from trilens.diagnose.flight.differences import Difference
    from trilens.diagnose.flight.reading import Dumps
    from trilens.diagnose.flight.timeline import GroupKey, Place
    from trilens.diagnose.flight.waits import Root

_SURE: Final = 0.95
_HISTORY: Final = 0.85  # what differed earlier, and may be why they wait now
_QUIET: Final = 0.6  # nobody waits: what is behind may only have dumped earlier
_TIE: Final = 0.6
_CIRCLE: Final = 0.85
_NOT_RECORDED: Final = (
    "look at those stacks: gloo records no sends and receives, and nothing records the end of a process group"
)


def judge_dumps(dumps: Dumps) -> FlightVerdict:
    return _Judge(dumps).verdict()


class _Judge:
    def __init__(self, dumps: Dumps) -> None:
        self._dumps = dumps
        self._lines = Timelines(dumps)
        self._telling = Telling(self._lines, dumps.stacks)
        self._missing = list(dumps.missing)

    def verdict(self) -> FlightVerdict:
        if not any(dump.entries for dump in self._dumps.ranks.values()):
            text = "No dump tells of a collective."
            if not self._dumps.ranks:
                remedy = (
                    "set TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, and collect the dumps"
                )
                self._missing.append(Missing("dumps of the flight recorder", remedy))
            return self._made(Reason.UNKNOWN, (), text, 0.0)
        found = find_waits(self._lines)
        if not found:
            return self._of_the_past()
        if roots := find_roots(found):
            return self._of_root(roots[0], roots[1:], found)
        return self._of_circle(find_circle(found), found)

    # -- what they wait in --

    def _of_root(self, root: Root, others: Sequence[Root], found: Mapping[Deed, Wait]) -> FlightVerdict:
        wait, lines = root.wait, self._lines
        key, place = wait.deed
        chain = tuple(self._telling.chain(root.way, found))
        others_told = tuple(self._telling.short(one.wait) for one in others[:SHOWN])
        earlier = None if wait.unit.is_p2p else first_difference(lines, key)
        if earlier is not None and (earlier[0] < place or wait.difference is not None):
            sure = _SURE if earlier[0] == place else _HISTORY
            return self._of_difference(key, earlier[0], earlier[1], sure, wait, chain, others_told)
        if wait.difference is not None:
            return self._of_difference(key, place, wait.difference, _SURE, wait, chain, others_told)
        reason = wait.reason or Reason.UNKNOWN
        culprits, waits_in_stacks = self._without_those_who_wait(wait.culprits, reason)
        text = self._telling.said(reason, culprits, wait)
        sure = self._how_sure(reason, culprits, wait) * (0.9 if waits_in_stacks else 1.0)
        if wait.older:
            self._tell_older(wait.older)
        doing = tuple(self._telling.doing(culprits, wait))
        return self._made(reason, culprits, text, sure, wait, chain, others_told, doing)

    def _of_difference(
        self,
        key: GroupKey,
        place: Place,
        found: Difference,
        sure: float,
        wait: Wait | None,
        chain: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
    ) -> FlightVerdict:
        usual, odd = found.usual, found.odd
        where = f"{self._telling.call(usual, found.entry)} of {self._lines.called(key)}"
        here, there = own_frame(usual), own_frame(odd)
        if found.is_tie:
            text = (
                f"In {where} {ranks_name(found.culprits)} do not fit together: {found.said}. "
                f"As many have the one as the other, so it cannot be told which is wrong."
            )
        else:
            who = f"{ranks_name(found.culprits)} {has(found.culprits)}"
            text = f"In {where} {who} {found.said}, unlike the other ranks."
            if found.reason is Reason.MISMATCHED_ORDER:
                text += " The next one is the other way round: they call them in another order."
            elif left_out(self._lines, found, key, place):
                text += " It is what the others call next: as if this one had been left out."
        if wait is not None and wait.deed.place > place:
            text += f" It ended, and since then they wait in {self._telling.deed(wait)}."
        doing = [
            Doing(unit.rank, f"called {self._telling.call(unit)} at {located(frame)}", "its dump")
            for unit, frame in ((odd, there), (usual, here))
            if frame is not None
        ]
        sure = min(sure, _TIE) if found.is_tie else sure
        verdict = self._made(found.reason, found.culprits, text, sure, wait, chain, others, tuple(doing))
        return replace(
            verdict,
            collective=found.entry.operation,
            sequence=place.seq,
            group=self._lines.named(key),
            group_ranks=tuple(sorted(self._lines.members(key))),
        )

    def _of_circle(self, circle: Sequence[Wait], found: Mapping[Deed, Wait]) -> FlightVerdict:
        first = circle[0]
        culprits = sorted({rank for one in circle for rank in one.elsewhere})
        told = "; ".join(
            f"{ranks_name(one.waiting)} {waits(one.waiting)} in {self._telling.deed(one)}" for one in circle
        )
        text = f"{capital(told)}: each waits for the next, in a circle. They use groups in different orders."
        chain = tuple(self._telling.chain([one.deed for one in (*circle, first)], found))
        doing = tuple(
            Doing(rank, f"called {self._telling.call(unit)} at {located(frame)}", "its dump")
            for rank in culprits[:SHOWN]
            if (unit := self._lines.first_pending.get(rank)) is not None
            and (frame := own_frame(unit)) is not None
        )
        return self._made(Reason.MISMATCHED_ORDER, tuple(culprits), text, _CIRCLE, first, chain, (), doing)

    # -- where nobody waits --

    def _of_the_past(self) -> FlightVerdict:
        """All that is told has ended, or was given up: gloo does not tell the one from the other."""
        lines = self._lines
        for key in lines.groups:
            if (earlier := first_difference(lines, key)) is not None:
                return self._of_difference(key, earlier[0], earlier[1], _HISTORY, None)
        for key in lines.groups:
            if (verdict := self._behind(key)) is not None:
                return verdict
        who = f"{ranks_name(lines.dumped)} {has(lines.dumped)}"
        text = f"All collectives that {who} recorded ended alike on all of them."
        if silent := sorted(lines.world - lines.dumped):
            text += f" Of {ranks_name(silent)} nothing is known."
        return self._made(Reason.NOTHING_PENDING, (), text, 0.8 if not silent else 0.5)

    def _behind(self, key: GroupKey) -> FlightVerdict | None:
        lines = self._lines
        for place in places(lines, key):
            there = at_place(lines, key, place)
            others = lines.members(key) & lines.dumped - {unit.rank for unit in there}
            away = {rank for rank in others if not lines.has_forgotten(rank, key, place)}
            if away and away <= lines.dumped_earlier:
                self._tell_older(away)
                return None
            if away:
                break
        else:
            return None
        wait = Wait(Deed(key, place), there[0], {unit.rank for unit in there}, away)
        text = (
            f"{capital(ranks_name(away))} never entered {self._telling.deed(wait)}, which "
            f"{ranks_name(wait.waiting)} entered and no longer {waits(wait.waiting)} in."
        )
        doing = tuple(self._telling.doing(wait.culprits, wait))
        return self._made(Reason.NEVER_ENTERED, wait.culprits, text, _QUIET, wait, doing=doing)

    def _tell_older(self, ranks: Collection[int]) -> None:
        what = f"what {ranks_name(ranks)} did last: the others' dumps are of a later moment"
        self._missing.append(Missing(what, DUMP_ALL))

    # -- how sure --

    def _without_those_who_wait(
        self, culprits: tuple[int, ...], reason: Reason
    ) -> tuple[tuple[int, ...], bool]:
        """Stacks see what dumps do not: gloo's sends and receives, and the end of a process group."""
        if reason is not Reason.NEVER_ENTERED:
            return culprits, False
        stacks = self._dumps.stacks
        free = tuple(rank for rank in culprits if rank not in stacks or not stacks[rank].waits)
        if free:
            return free, False
        for rank in culprits:
            frame = stacks[rank].frame
            what = f"rank {rank} waits for others by its stacks ({frame}), in what no dump has"
            self._missing.append(Missing(what, _NOT_RECORDED))
        return culprits, True

    def _how_sure(self, reason: Reason, culprits: tuple[int, ...], wait: Wait) -> float:
        members = len(self._lines.members(wait.deed.group)) or 1
        if reason is Reason.UNKNOWN:
            return 0.0
        if reason is Reason.DID_NOT_DUMP:
            if wait.unit.is_p2p:
                return 0.7
            return 0.75 if len(culprits) == 1 or 4 * len(culprits) <= members else 0.4
        if reason is Reason.GPU_BEHIND:
            return 0.7
        if reason is Reason.ALL_SAME:
            return 0.7 if self._lines.knows_members(wait.deed.group) else 0.4
        sure = _SURE
        if not wait.unit.is_p2p and 2 * len(culprits) > members:
            sure = _QUIET  # most are not there: the few may be where they should not
        if wait.silent:
            sure *= 0.8 if 4 * len(wait.silent) <= members else 0.6
        if not self._lines.knows_members(wait.deed.group) and not self._was_member(culprits, wait):
            sure = min(sure, 0.5)
        if wait.unit.end.backend == "gloo" and len(culprits) > 1:
            sure *= 0.8  # one of them may wait for another in a receive, which gloo does not record
        return sure

    def _was_member(self, culprits: tuple[int, ...], wait: Wait) -> bool:
        return {*culprits} <= self._lines.members(wait.deed.group)

    def _made(
        self,
        reason: Reason,
        culprits: tuple[int, ...],
        text: str,
        sure: float,
        wait: Wait | None = None,
        chain: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        doing: tuple[Doing, ...] = (),
    ) -> FlightVerdict:
        who = ranks_name(culprits) if culprits else "the ranks"
        unit = wait.unit if wait is not None else None
        since = min((one for one in self._created(wait) if one), default=None) if wait is not None else None
        return FlightVerdict(
            reason,
            culprits,
            text,
            round(sure, 2),
            unit.entries[0].operation if unit is not None else "",
            wait.deed.place.seq if wait is not None else None,
            self._lines.named(wait.deed.group) if wait is not None else "",
            tuple(sorted(self._lines.members(wait.deed.group))) if wait is not None else (),
            tuple(sorted(wait.waiting)) if wait is not None else (),
            since // 1_000_000 if since is not None else None,
            unit.end.timeout_ms if unit is not None else None,
            chain,
            doing,
            tuple(line.replace("{who}", who) for line in FIXES.get(reason, ())),
            others,
            tuple(dict.fromkeys(self._missing)),
            len(self._dumps.ranks),
            len(self._dumps.world),
        )

    def _created(self, wait: Wait) -> Iterator[int]:
        for rank in wait.waiting:
            unit = self._lines.unit(rank, *wait.deed)
            if unit is not None and unit.entries[0].created_ns is not None:
                yield unit.entries[0].created_ns
