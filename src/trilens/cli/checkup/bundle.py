"""What a bundle says of where it came from: what could not be gathered, and who is not heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.diagnose.bundle import read_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.walk import why
from trilens.model.verdict import TELL_FROM, Layer
from trilens.serve.checkup.finding import Examined, Finding, many

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.diagnose.case_file import CaseFile


def examine_bundle(file: Path) -> list[Examined]:
    case = read_bundle(file)
    series = many(sum(map(len, case.series.values())), "series", "series")
    sees = f"{case.subject.kind.value} {case.subject.name}, by Trilens {case.made_by}: "
    sees += f"{many(len(case.objects), 'object')}, {series}, {many(len(case.targets), 'target')}"
    return [Examined("bundle", sees, (*_targets(case), *_telemetry(case), *_missing(case)))]


def _targets(case: CaseFile) -> Iterator[Finding]:
    for one in case.targets:
        if one.is_up is False:
            what = f"{one.job}: {one.instance}: {one.error or 'no answer'}"
            remedy = "see that it runs and can be reached from the server"
            yield Finding("scrapes", True, what, "its samples are missing", remedy)


def _telemetry(case: CaseFile) -> Iterator[Finding]:
    for verdict in why(Case(case)):
        if (
            verdict.layer is Layer.TELEMETRY
            and verdict.cause
            and verdict.confidence >= TELL_FROM
            and verdict.fix
        ):
            means = "what is not seen there cannot be judged"
            yield Finding("telemetry", True, verdict.text, means, "; ".join(verdict.fix))


def _missing(case: CaseFile) -> Iterator[Finding]:
    for one in case.missing:
        yield Finding("missing", False, f"not gathered: {one.what}", "verdicts do without it", one.remedy)
