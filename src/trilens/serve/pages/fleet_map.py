"""/api/fleet: every node and GPU as it is now, for a map of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.serve.access.seen_trouble import seen_findings, seen_incidents
from trilens.serve.access.sight import WHOLE, sight_of
from trilens.serve.envelope import success
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.fleet_columns import Seen, fleet_answer
from trilens.serve.pages.fleet_scene import seen_jobs
from trilens.serve.pages.shared_answer import SharedAnswer
from trilens.serve.routes import route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.serve.detection.keeper import DetectionState
    from trilens.serve.gpu_bindings import GpuBindings
    from trilens.serve.intakes import Intakes
    from trilens.serve.pages.fleet_machines import KnownMachines
    from trilens.serve.pages.fleet_scene import KeptScene
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute
    from trilens.serve.standing_faults import GpuFaults

PATH: Final = "/api/fleet"
_OLD_MS: Final = 60_000  # looks are 5 s apart


class FleetApi(PageApi):
    """`intakes` is None where nothing is watched."""

    def __init__(
        self,
        scene: KeptScene,
        gpus: GpuBindings,
        faults: GpuFaults,
        machines: KnownMachines,
        workloads: Workloads,
        detection: Callable[[], DetectionState],
        incidents: Callable[[], Sequence[Incident]],
        intakes: Intakes | None,
        questions: Questions,
    ) -> None:
        self._scene = scene
        self._gpus = gpus
        self._faults = faults
        self._machines = machines
        self._workloads = workloads
        self._detection = detection
        self._incidents = incidents
        self._intakes = intakes
        self._questions = questions
        self._shared = SharedAnswer(partial(self._body, WHOLE), questions)

    def routes(self) -> list[GuardedRoute]:
        return [route(PATH, self.show, narrowed=True)]

    def looked(self) -> None:
        """Made anew while nobody waits."""
        self._shared.looked()

    async def show(self, request: Request) -> Response:
        sight = sight_of(request)
        if sight.is_whole:
            return await self._shared.answer(request)
        return await self._questions.answer_bytes(request, partial(self._body, sight))

    def _body(self, sight: Sight, guard: QueryGuard) -> bytes:
        troubles = self._intakes.warnings() if self._intakes is not None else []
        now = self._gpus.now
        if now.trouble:
            troubles.append(f"GPUs may be shown as they were: {now.trouble}")
        warnings = sight.warnings(troubles)
        warnings += look_warnings(self._scene, self._questions.now_ms())
        findings = seen_findings(self._detection().open, self._workloads, sight, guard)
        seen = Seen(
            seen_jobs(self._scene.now, sight),
            now,
            self._gpus.held,
            self._machines.lasting(guard),
            findings,
            self._faults.at(self._questions.now_ms(), guard),
            seen_incidents(self._incidents(), self._workloads, sight, guard),
            sight,
        )
        return success(msgspec.json.encode(fleet_answer(seen)), warnings)


def look_warnings(scene: KeptScene, now_ms: int) -> list[str]:
    """Why what a page shows may not be what is now."""
    if scene.now is None:
        return ["nothing was looked at yet: the server has only just begun"]
    age_ms = now_ms - scene.now.now_ms
    return [f"this is as it was {age_ms // 1000:,} s ago: no look since"] if age_ms > _OLD_MS else []
