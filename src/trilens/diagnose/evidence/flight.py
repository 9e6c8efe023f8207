"""What the flight recorders of a case's ranks say together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.evidence.logs import STACKS
from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.flight.reading import Dumps, DumpSource, read_dumps, read_stack
from trilens.model.finding import Subject
from trilens.model.rank_names import ranks_name
from trilens.model.verdict import Fact, Missing
from trilens.model.workload import PodKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseFile
    from trilens.diagnose.flight.flight_verdict import FlightVerdict

DUMPS: Final = "flight-recorder"  # the kind of an artifact


def dumps_of(file: CaseFile) -> Dumps:
    """Of the last life of each rank; a process sends a new dump whenever its steps stop."""
    sources, stacks = [], {}
    last = {(one.run, one.rank): one.attempt for one in sorted(file.artifacts, key=lambda one: one.attempt)}
    for one in sorted(file.artifacts, key=lambda one: (one.t_ms, one.n)):
        if one.attempt != last[one.run, one.rank]:
            continue
        if one.kind == DUMPS:
            sources.append(DumpSource(one.name, one.content, one.rank, one.t_ms))
        elif one.kind == STACKS and (stack := read_stack(one.content.decode("utf-8", "replace"))) is not None:
            stacks[one.rank] = stack
    newest = {source.rank: source for source in sources}  # earlier stalls of a rank are over
    world = max((one.world_size or 0 for one in file.ranks), default=0)
    return read_dumps(newest.values(), stacks, world or None)


@evidence(*(reason.value for reason in Reason if reason is not Reason.UNKNOWN))
def flight_recorder_says(case: Case) -> Answer:
    """Why a collective does not end, and whose fault that is."""
    file = case.file
    if not any(one.kind == DUMPS for one in file.artifacts):
        remedy = (
            "set TORCH_FR_BUFFER_SIZE=2000 and let the ranks use the SDK's watchdog, which sends their dumps"
        )
        return Answer.unknown(Missing(f"the flight recorders' dumps of {file.subject.name}", remedy))
    verdict = judge_dumps(dumps_of(file))
    if not verdict.can_tell:
        return Answer((UNKNOWN,), tuple(_facts(verdict)), missing=verdict.missing)
    return Answer(
        (verdict.reason.value,),
        tuple(_facts(verdict)),
        verdict.confidence,
        {
            "flight_text": verdict.text,
            "flight_fix": " ".join(verdict.fix),
            "culprits": ranks_name(verdict.culprits) if verdict.culprits else "nobody",
            "collective": f"{verdict.collective} {verdict.sequence}",
            "group": verdict.group,
        },
        verdict.missing,
        _subject(file, verdict),
        verdict.since_ms,
    )


def _facts(verdict: FlightVerdict) -> Iterator[Fact]:
    yield Fact(verdict.text, f"the dumps of {verdict.ranks} of {verdict.world} ranks", verdict.since_ms)
    for link in verdict.chain:
        yield Fact(link, "the dumps")
    for doing in verdict.doing:
        yield Fact(f"rank {doing.rank} {doing.text}", doing.source)


def _subject(file: CaseFile, verdict: FlightVerdict) -> Subject:
    if len(verdict.culprits) != 1:
        return Subject()
    rank = verdict.culprits[0]
    lives = sorted((one for one in file.ranks if one.rank == rank), key=lambda one: one.attempt)
    if not lives:
        return Subject(rank=rank)
    process = lives[-1]
    pod = None
    if process.namespace and process.pod and process.pod_uid:
        pod = PodKey(file.subject.cluster, process.namespace, process.pod, process.pod_uid)
    return Subject(rank=rank, node=process.node or None, pod=pod)
