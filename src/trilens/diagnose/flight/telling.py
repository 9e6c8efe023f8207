"""Verdicts on dumps in words: what a rank waits in, for whom, and what that one does instead."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trilens.diagnose.flight.flight_verdict import Doing, Reason
from trilens.diagnose.flight.timeline import own_frame
from trilens.diagnose.flight.wording import waits
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.diagnose.flight.timeline import Timelines, Unit
    from trilens.diagnose.flight.waits import Deed, Wait
    from trilens.diagnose.logs.tracebacks import Stack
    from trilens.model.flight_recorder import Collective, Frame

SHOWN: Final = 8  # culprits of whom is told what they do


class Telling:
    def __init__(self, lines: Timelines, stacks: Mapping[int, Stack]) -> None:
        self._lines = lines
        self._stacks = stacks

    def said(self, reason: Reason, culprits: tuple[int, ...], wait: Wait) -> str:
        who, deed = capital(ranks_name(culprits)) if culprits else "", self.deed(wait)
        rest = sorted(wait.waiting - {*culprits})
        others = f"{ranks_name(rest)} {waits(rest)}" if rest else "nobody waits"
        if reason is Reason.NEVER_ENTERED:
            if wait.unit.is_p2p:
                return f"{who} never answered the {deed}, in which {others}."
            return f"{who} never entered {deed}, in which {others}."
        if reason is Reason.DID_NOT_DUMP:
            told = "all who dumped are in it" if not wait.elsewhere else "nobody who dumped is to blame"
            return f"{who} left no dump of it; {others} in {deed}, and {told}."
        if reason is Reason.GPU_BEHIND:
            return f"All entered {deed}, but the GPUs of {ranks_name(culprits)} are behind in it; {others}."
        if reason is Reason.UNKNOWN:
            return f"{capital(others)} in {deed}, and no dump says for whom."
        return f"All ranks that should be are in {deed}, with the same sizes and types, and it does not end."

    def deed(self, wait: Wait) -> str:
        return f"{self.call(wait.unit)} of {self._lines.called(wait.unit.group)}"

    def call(self, unit: Unit, entry: Collective | None = None) -> str:
        """`entry` is the one of them that matters. Dumps number ranks within the group, people in the job."""
        entry = entry or unit.entries[0]
        name = entry.operation
        if unit.is_p2p:
            towards = "to" if name == "send" else "from"
            name += next(
                (f" {towards} rank {peer}" for one, peer in self._lines.peers(unit) if one is entry), ""
            )
        else:
            name += f" {unit.place.seq}"
        more = len(unit.entries) - 1
        return f"{name} (with {more} more, coalesced)" if more else name

    def chain(self, way: Sequence[Deed], found: Mapping[Deed, Wait]) -> Iterator[str]:
        for one, after in pairwise(way):
            wait, next_wait = found[one], found[after]
            for_whom = sorted(rank for rank, deed in wait.elsewhere.items() if deed == after)
            yield (
                f"{ranks_name(wait.waiting)} {waits(wait.waiting)} in {self.deed(wait)} for "
                f"{ranks_name(for_whom)}, which {waits(for_whom)} in {self.deed(next_wait)}"
            )

    def short(self, wait: Wait) -> str:
        who = f" by {ranks_name(wait.culprits)}" if wait.culprits else ""
        return f"{wait.reason}{who} in {self.deed(wait)}"

    def doing(self, culprits: Sequence[int], wait: Wait) -> Iterator[Doing]:
        for rank in culprits[:SHOWN]:
            if (stack := self._stacks.get(rank)) is not None and stack.frame is not None:
                yield Doing(rank, f"is at {stack.frame}", "its stacks")
            last = _last(self._lines, rank)
            if last is not None:
                frame = own_frame(last)
                where = f" at {located(frame)}" if frame is not None else ""
                ended = "which ended" if last.is_over else "which has not ended"
                deed = f"{self.call(last)} of {self._lines.called(last.group)}"
                yield Doing(rank, f"last called {deed}{where}, {ended}", "its dump")
        here = own_frame(wait.unit)
        if here is not None:
            yield Doing(wait.unit.rank, f"waits at {located(here)}", "its dump")


def _last(lines: Timelines, rank: int) -> Unit | None:
    units = (unit for line in lines.lines.get(rank, {}).values() for unit in line.units.values())
    return max(units, key=lambda unit: unit.record, default=None)


def located(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} in {frame.function}"


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]
