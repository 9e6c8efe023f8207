"""Whether two findings are one, seen again: by whom it is about, however little was known at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.finding import FindingKind

if TYPE_CHECKING:
    from trilens.model.finding import Finding, Subject

Handle = tuple[str, ...]

# Of a GPU or a node, whoever has it; all others are of a job, whichever of its ranks is to blame.
_OF_PLACES: Final = frozenset({FindingKind.THROTTLING, FindingKind.SUSPECT_TELEMETRY, FindingKind.GPU_FAULT})
# Several at a time may be found of one place, by cause. Elsewhere the cause is a verdict, and may change.
_BY_CAUSE: Final = frozenset({FindingKind.SUSPECT_TELEMETRY, FindingKind.GPU_FAULT})
_BY_RANK: Final = frozenset({FindingKind.STRAGGLER})  # several of one job, each a finding


class Handles(NamedTuple):
    own: tuple[Handle, ...]  # by which it is found later
    known_by: tuple[Handle, ...]  # by which it may have been known before, the surest first


def handles_of(finding: Finding) -> Handles:
    subject = finding.subject
    part: Handle = (finding.code, finding.cause if finding.kind in _BY_CAUSE else "")
    if finding.kind in _BY_RANK:
        part += ("", subject.node or "") if subject.rank is None else (str(subject.rank), "")
    is_placed = finding.kind in _OF_PLACES and (subject.gpu is not None or subject.node is not None)
    own, known_by = _of_place(subject) if is_placed else _of_job(subject)
    return Handles(tuple((*part, *one) for one in own), tuple((*part, *one) for one in known_by))


def _of_place(subject: Subject) -> tuple[list[Handle], list[Handle]]:
    if subject.gpu is not None:
        own: Handle = ("gpu", subject.gpu)
    else:
        own = ("node", subject.cluster or "", subject.node or "")
    return [own], [own]


def _of_job(subject: Subject) -> tuple[list[Handle], list[Handle]]:
    """A workload may have several runs: those with a run are told apart by it, and known by the workload only
    where one of the two has none."""
    workload: Handle = tuple(subject.workload) if subject.workload is not None else ()
    if subject.run is not None:
        run: Handle = ("run", subject.run)
        if not workload:
            return [run], [run]
        return [run, ("a run of", *workload)], [run, ("workload", *workload)]
    if workload:
        return [("workload", *workload)], [("workload", *workload), ("a run of", *workload)]
    # What nobody knows by any name is at least somewhere.
    own: Handle = ("job", subject.job_name) if subject.job_name else ("at", *_place(subject))
    return [own], [own]


def _place(subject: Subject) -> Handle:
    return (subject.cluster or "", subject.node or "", subject.gpu or "")
