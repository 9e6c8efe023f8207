"""/api/findings: what detectors find now, and what they found in a span of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.serve.access.seen_trouble import seen_findings
from trilens.serve.access.sight import sight_of
from trilens.serve.detection.finding_answers import finding_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.detection.finding_answers import FindingAnswer
    from trilens.serve.detection.finding_log import FindingLog
    from trilens.serve.detection.keeper import DetectionState
    from trilens.serve.questions import Questions

_DAY_MS: Final = 86_400_000
_GRAVITY: Final = {"critical": 0, "warning": 1, "info": 2}


class FindingsApi:
    def __init__(
        self,
        state: Callable[[], DetectionState],
        findings: FindingLog,
        workloads: Workloads,
        questions: Questions,
    ) -> None:
        self._state = state
        self._findings = findings
        self._workloads = workloads
        self._questions = questions

    async def every(self, request: Request) -> Response:
        """Those that last; with `from`, `to` or `all` those that lasted at some time of that span, too."""
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        wants_past = any(map(params.first, ("from", "to", "all")))
        from_ms, to_ms = params.span_ms(now_ms, _DAY_MS)
        wanted = {name: params.first(name) for name in ("code", "severity", "node", "namespace", "run")}
        workload = params.first("workload")
        state, sight = self._state(), sight_of(request)
        warnings = sight.warnings(
            [f"{what} could not be asked: {why}" for what, why in state.troubles.items()]
        )
        if state.looked_ms is None:
            warnings.append("nothing was looked at yet: the server has only just begun")

        def read(guard: QueryGuard) -> list[FindingAnswer]:
            known = {(one.key, one.detected_ms): one for one in state.open}
            if wants_past:
                kept = self._findings.during(from_ms, to_ms)
                known = {(one.key, one.detected_ms): one for one in kept} | {
                    key: one for key, one in known.items() if one.detected_ms <= to_ms
                }
            seen = seen_findings([*known.values()], self._workloads, sight, guard)
            told = [finding_answer(one) for one in seen]
            found = [
                one
                for one in told
                if all(not text or getattr(one, name) == text for name, text in wanted.items())
                and (not workload or (one.workload is not None and one.workload.name == workload))
            ]
            return sorted(found, key=_order)

        return await self._questions.answer(request, read, warnings)


def _order(finding: FindingAnswer) -> tuple[bool, int, int]:
    """What lasts first, the gravest of it at the top; then the latest."""
    return finding.ended_ms is not None, _GRAVITY.get(finding.severity, 3), -finding.detected_ms
