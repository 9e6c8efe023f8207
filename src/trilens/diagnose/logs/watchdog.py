"""What PyTorch's watchdog says of collectives, in the words of its versions, and which rank is behind."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs.line import number
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

SAYS: Final = ("WorkNCCL(", "ast enqueued", "watchdog at work", "Timed out waiting")

_WORK: Final = re.compile(r"WorkNCCL\((?P<told>[^)]*(?:\(ms\)[^)]*)?)\)")
_TOLD: Final = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut|Timeout\(ms\))=([\w-]+)")
_AT: Final = re.compile(r"(?:at work(?: sequence id)?|at NCCL work): (?P<seq>\d+)")
_PROGRESS: Final = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), "
    r"last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)


_GLOO: Final = re.compile(r"Timed out waiting (?P<ms>\d+) ?ms for (?:recv|send) operation")


class Wait(NamedTuple):
    """What one rank waited in, in one group. None where that version does not say."""

    group: str
    seq: int | None = None
    op: str = ""
    size: str = ""  # elements in and out
    timeout_ms: int | None = None
    enqueued: int | None = None
    completed: int | None = None

    def with_more(self, other: Wait) -> Wait:
        """Of two lines about the same: what the first one does not say is taken from the second."""
        return Wait(
            self.group,
            self.seq if self.seq is not None else other.seq,
            self.op or other.op,
            self.size or other.size,
            self.timeout_ms if self.timeout_ms is not None else other.timeout_ms,
            self.enqueued if self.enqueued is not None else other.enqueued,
            self.completed if self.completed is not None else other.completed,
        )


def read_wait(text: str, group: str) -> Wait | None:
    if gloo := _GLOO.search(text):
        return Wait("gloo", timeout_ms=number(gloo["ms"]))
    told: dict[str, str] = {}
    if found := _WORK.search(text):
        told = dict(_TOLD.findall(found["told"]))
    at = _AT.search(text)
    progress = _PROGRESS.search(text)
    if not (told or at or progress):
        return None
    seq = told.get("SeqNum") or (at["seq"] if at else None)
    sizes = [told[name] for name in ("NumelIn", "NumelOut") if name in told]
    return Wait(
        group,
        number(seq),
        told.get("OpType", ""),
        "/".join(sizes),
        number(told.get("Timeout(ms)")),
        number(progress["enqueued"]) if progress else None,
        number(progress["completed"]) if progress else None,
    )


class Behind(NamedTuple):
    """What the waits of all ranks say together."""

    cause: str  # a class of signs.yml
    ranks: tuple[int, ...]  # the culprits, where they are known
    sure: float
    wait: Wait  # what the others waited in
    why: str


def who_is_behind(waits: Mapping[int, Sequence[Wait]], ranks: frozenset[int]) -> Behind | None:
    """`ranks` are all that should be there. None where nobody waits.

    Of several groups the one that most ranks wait in is looked at: a group of a few is a part of the program
    that hangs because of it, more often than the other way round.
    """
    by_group: defaultdict[str, dict[int, Wait]] = defaultdict(dict)
    for rank, told in waits.items():
        for wait in told:
            by_group[wait.group][rank] = wait
    if not by_group:
        return None
    group = max(by_group.values(), key=len)
    typical = _typical(group.values())
    if differing := _mismatch(group, typical):
        return differing
    if late := _late(group, typical):
        return late
    silent = tuple(sorted(ranks - waits.keys()))
    if silent and len(silent) < len(group):
        why = f"{ranks_name(group)} {_waits(group)} in {_named(typical)}; {ranks_name(silent)} not"
        return Behind("rank-behind", silent, 0.72 if len(silent) == 1 else 0.6, typical, why)
    why = f"{ranks_name(group)} {_waits(group)} in {_named(typical)}: all that tell of it"
    return Behind("collective-timeout", (), 0.4, typical, why)


def _typical(waits: object) -> Wait:
    counted: Counter[Wait] = Counter(waits)  # type: ignore[call-overload]  # values of a mapping
    return counted.most_common(1)[0][0]


def _mismatch(group: Mapping[int, Wait], typical: Wait) -> Behind | None:
    """Ranks that have another operation, or another size, under the same number."""
    same = {rank: wait for rank, wait in group.items() if wait.seq is not None and wait.seq == typical.seq}
    other_op = tuple(sorted(rank for rank, wait in same.items() if wait.op and wait.op != typical.op))
    if other_op and typical.op:
        op = same[other_op[0]].op
        why = f"in collective {typical.seq} most ranks call {typical.op}, {ranks_name(other_op)} {op}"
        return Behind("mismatched-collective", other_op, 0.85, typical, why)
    if _sized(typical):
        other = tuple(sorted(rank for rank, wait in same.items() if wait.size and wait.size != typical.size))
        if other:
            why = (
                f"in collective {typical.seq} most ranks have {typical.size} elements, {ranks_name(other)} "
                f"{same[other[0]].size}"
            )
            return Behind("mismatched-shape", other, 0.8, typical, why)
    return None


def _sized(wait: Wait) -> bool:
    """Whether all ranks must have the same size: not where one gives or takes for all."""
    return bool(wait.size) and wait.op in ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE")


def _late(group: Mapping[int, Wait], typical: Wait) -> Behind | None:
    """Ranks that wait in an earlier collective, or have started fewer, than most."""
    ahead = {rank: wait for rank, wait in group.items() if wait.seq is not None and typical.seq is not None}
    earliest = min((wait.seq for wait in ahead.values() if wait.seq is not None), default=None)
    latest = max((wait.seq for wait in ahead.values() if wait.seq is not None), default=None)
    if earliest is not None and latest is not None and earliest != latest:
        early = tuple(sorted(rank for rank, wait in ahead.items() if wait.seq == earliest))
        late = tuple(sorted(rank for rank, wait in ahead.items() if wait.seq == latest))
        # Whoever is further has left the earlier collective without the others, or never was in it: the few
        # are the odd ones. A single rank that is ahead did not take part in what the others wait in.
        odd, others = (early, late) if len(early) <= len(late) else (late, early)
        first = ahead[odd[0]]
        why = f"{ranks_name(odd)} {_waits(odd)} in {_named(first)}, the others in {_named(ahead[others[0]])}"
        cause = "mismatched-collective" if odd == late else "rank-behind"
        return Behind(cause, odd, 0.75, ahead[others[0]], why)
    started = {rank: wait.enqueued for rank, wait in group.items() if wait.enqueued is not None}
    if started and len(set(started.values())) > 1:
        least, most = min(started.values()), max(started.values())
        behind = tuple(sorted(rank for rank, number in started.items() if number == least))
        if len(behind) < len(started) / 2:
            why = f"{ranks_name(behind)} started {least} collectives, others up to {most}"
            return Behind("rank-behind", behind, 0.7, typical, why)
    return None


def _waits(ranks: Sized) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _named(wait: Wait) -> str:
    op = wait.op or "a collective"
    return f"{op} {wait.seq}" if wait.seq is not None else op
