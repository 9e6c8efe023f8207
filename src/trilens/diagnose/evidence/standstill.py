"""A job that does not go on: what its ranks are in, and which one is not where the others are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.found import facts_of, rank_name, rank_subject, ranks_name, whom
from trilens.model.finding import FindingKind, Subject
from trilens.model.verdict import Fact, Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case import Case
    from trilens.model.finding import FindingInterval
    from trilens.model.run import NoteRecord, RankProcess

_SYNC: Final = ("grad_sync", "barrier")
_PAUSES: Final = ("checkpoint", "validation", "evaluation", "eval", "compile", "compilation")
_STALL: Final = {"gil-held": "locked", "data": "data", **dict.fromkeys(_PAUSES, "pause")}
_HANG: Final = {"rank-missing": "rank-missing", "all-waiting": "all-waiting", "kernel": "kernel"}
_STANDS_MS: Final = 60_000  # without a step: before that nobody says so from records alone
_BY_NOTE: Final = 0.95
_BY_RECORDS: Final = 0.7  # no detector looked
_FEW: Final = 4


@evidence("locked", "data", "pause", "rank-missing", "all-waiting", "kernel", "goes-on")
def stands_in(case: Case) -> Answer:
    """What the detectors saw, made sharper by what ranks said; else by where the ranks are."""
    found = case.findings(FindingKind.STALL, FindingKind.HANG)
    since_ms = min((one.finding.onset_ms for one in found), default=None)
    frozen = _frozen(case, since_ms)
    if frozen is not None:
        return _locked(case, frozen)
    known = [(one, how) for one in found if (how := _how(one)) is not None]
    # One that names a rank, or what it is in, says more than one that only says that all wait.
    known.sort(key=lambda pair: (pair[1] == "all-waiting", -pair[0].finding.confidence))
    if known:
        interval, how = known[0]
        finding = interval.finding
        notes = _waits(case, finding.onset_ms)
        return Answer(
            (how,),
            (*facts_of(interval), *notes),
            finding.confidence,
            {"stuck": whom(finding), "pause": finding.cause},
            subject=_with_rank(case, finding.subject),
            since_ms=finding.onset_ms,
        )
    return _by_records(case)


def _with_rank(case: Case, subject: Subject) -> Subject:
    """A GPU that telemetry alone tells of has a rank, where somebody knows who holds it."""
    rank = next((seat.rank for seat in case.file.gpus if seat.uuid == subject.gpu), None)
    return subject if subject.rank is not None else subject._replace(rank=rank)


def _how(interval: FindingInterval) -> str | None:
    finding = interval.finding
    if finding.kind is FindingKind.HANG:
        return _HANG.get(finding.cause)
    if (how := _STALL.get(finding.cause)) is not None:
        return how
    if finding.cause in ("collective", "unknown"):
        return "rank-missing" if finding.subject.rank is not None else "all-waiting"
    return None  # somebody has gone: first_to_go knows more


def _frozen(case: Case, since_ms: int | None) -> NoteRecord | None:
    """The last such note, unless steps went on after it."""
    moving = max((one.t_ms for one in case.file.notes if one.kind == "moving"), default=0)
    told = [one for one in case.file.notes if one.kind == "frozen" and one.t_ms > moving]
    return max(told, key=lambda one: one.t_ms, default=None) if since_ms is not None else None


def _locked(case: Case, note: NoteRecord) -> Answer:
    told = note.data.get("rank")
    rank = told if isinstance(told, int) else note.rank
    process = next((one for one in case.lives if one.rank == rank), None)
    who = rank_name(process) if process is not None else f"rank {rank}"
    subject = rank_subject(process) if process is not None else Subject(run=note.run, rank=rank)
    fact = Fact(f"rank {note.rank}: {note.text}", "note of the SDK's watchdog", note.t_ms)
    return Answer(("locked",), (fact,), _BY_NOTE, {"stuck": who}, subject=subject, since_ms=note.t_ms)


def _waits(case: Case, since_ms: int) -> list[Fact]:
    """What ranks said of it themselves."""
    told = [
        one
        for one in case.file.notes
        if one.kind in ("barrier", "stalled", "collectives") and one.t_ms >= since_ms
    ]
    return [Fact(f"rank {one.rank}: {one.text}", f"note {one.kind}", one.t_ms) for one in told[:_FEW]]


def _by_records(case: Case) -> Answer:
    alive = [one for one in case.lives if one.ending is None]
    ends = [steps.end_ms[-1] for steps in case.file.steps if steps.end_ms]
    if not alive or not ends:
        name = case.file.subject.name
        return Answer.unknown(Missing(f"what the ranks of {name} are in", "have it call trilens.init()"))
    last_ms = max(ends)
    if case.now_ms - last_ms < _STANDS_MS:
        return Answer(("goes-on",), (Fact("its last step ended", "records of the run", last_ms),))
    odd = _odd(alive)
    where = ", ".join(f"{count} in {phase}" for phase, count in _phases(alive).most_common())
    facts = (Fact(f"no step ended since; ranks are: {where}", "records of the run", last_ms),)
    if not odd:
        waits = all(one.phase in _SYNC for one in alive)
        if not waits:
            return Answer.unknown(
                Missing("which rank the others wait for", "set TORCH_FR_BUFFER_SIZE=2000 for the ranks")
            )
        return Answer(("all-waiting",), facts, _BY_RECORDS, {"stuck": "the job"}, since_ms=last_ms)
    phases = {one.phase for one in odd}
    how = "data" if phases == {"data"} else "pause" if phases <= {*_PAUSES} else "rank-missing"
    names = {
        "stuck": rank_name(odd[0]) if len(odd) == 1 else ranks_name(one.rank for one in odd),
        "pause": odd[0].phase or "something",
    }
    subject = rank_subject(odd[0]) if len(odd) == 1 else Subject()
    return Answer((how,), facts, _BY_RECORDS, names, subject=subject, since_ms=last_ms)


def _phases(alive: Sequence[RankProcess]) -> Counter[str]:
    return Counter(one.phase or "nothing that it tells" for one in alive)


def _odd(alive: Sequence[RankProcess]) -> list[RankProcess]:
    """Those that are not in the collective in which most wait; else those at the lowest step."""
    odd = [one for one in alive if one.phase not in _SYNC]
    if 0 < 2 * len(odd) < len(alive):
        return odd
    steps = [one.step for one in alive if one.step is not None]
    if len(steps) == len(alive) and min(steps) < max(steps):
        behind = [one for one in alive if one.step == min(steps)]
        return behind if 2 * len(behind) < len(alive) else []
    return []
