"""What the logs of a case tell: pods' output, the kernel's lines, files, and the stacks that the SDK sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.log_verdict import UNKNOWN as NO_CAUSE
from trilens.diagnose.logs.reading import LogSource
from trilens.diagnose.logs.signs import families
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseFile, LogText
    from trilens.diagnose.logs.log_verdict import LogVerdict

STACKS: Final = "stacks"  # the kind of an artifact
_FEW: Final = 5  # facts that an answer shows
_QUIET: Final = 0.9  # what others saw is not less so for programs that write little


def sources_of(file: CaseFile) -> Iterator[LogSource]:
    """The logs of a case file, and the stacks of its ranks, in an order that does not change."""
    for log in file.logs:
        yield LogSource(_named(log), log.lines, log.rank, log.node, log.is_cut)
    for one in file.artifacts:
        if one.kind == STACKS:
            yield LogSource(one.name, one.content.decode("utf-8", "replace").splitlines(), one.rank)


@evidence("nothing", *families())
def logs_say(case: Case) -> Answer:
    """The family of the cause that the logs of all ranks have in common; `nothing` where they are quiet."""
    sources = list(sources_of(case.file))
    if not sources:
        name = case.file.subject.name
        return Answer.unknown(
            Missing(f"what {name} wrote", "run trilens agent on its nodes, or hand its logs in")
        )
    verdict = judge_logs(sources)
    facts = tuple(_facts(verdict))
    if verdict.cause == NO_CAUSE:
        values = ("nothing",) if verdict.lines else (UNKNOWN,)
        return Answer(values, facts, _QUIET, missing=verdict.missing)
    if not verdict.can_tell:
        return Answer((UNKNOWN,), facts, missing=verdict.missing)
    return Answer(
        (verdict.family,),
        facts,
        verdict.confidence,
        {
            "log_class": verdict.cause,
            "log_text": verdict.text,
            "log_fix": " ".join(verdict.fix),
            "log_line": verdict.line,
            "who": str(verdict.who),
        },
        verdict.missing,
        _subject(case.file, verdict),
        verdict.t_ms,
    )


def _named(log: LogText) -> str:
    return f"{log.pod.namespace}/{log.pod.name}/{log.name}" if log.pod is not None else log.name


def _facts(verdict: LogVerdict) -> Iterator[Fact]:
    if verdict.line:
        yield Fact(verdict.line, f"{verdict.file}, line {verdict.number}", verdict.t_ms)
    if verdict.why:
        yield Fact(verdict.why, "the logs of all ranks together")
    for one in verdict.others[:_FEW]:
        yield Fact(
            one.text, f"{one.file}, line {one.number}" if one.file else "the logs of all ranks", one.t_ms
        )


def _subject(file: CaseFile, verdict: LogVerdict) -> Subject:
    """A container knows itself by its host name; whose that is, its log's place tells."""
    rank, host = verdict.who
    own = (
        [log for log in file.logs if rank is not None and log.rank == rank]
        or [log for log in file.logs if host and log.pod is not None and log.pod.name == host]
        or [log for log in file.logs if verdict.file and _named(log) == verdict.file]
    )
    return Subject(rank=rank, pod=own[0].pod, node=own[0].node or None) if own else Subject(rank=rank)
