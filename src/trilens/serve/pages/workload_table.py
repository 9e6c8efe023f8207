"""/api/workload-table: all workloads with health, goodput, cost and progress, for a table of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.errors import RequestError
from trilens.serve.access.seen_trouble import seen_findings, seen_incidents
from trilens.serve.access.sight import WHOLE, sight_of
from trilens.serve.envelope import success
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.fleet_map import look_warnings
from trilens.serve.pages.fleet_scene import seen_jobs
from trilens.serve.pages.shared_answer import SharedAnswer
from trilens.serve.pages.workload_table_rows import Known, gone_workloads, workload_table
from trilens.serve.routes import route
from trilens.store.workloads import Span

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
    from trilens.serve.incidents.workload_costs import WorkloadCosts
    from trilens.serve.intakes import Intakes
    from trilens.serve.pages.fleet_scene import KeptScene
    from trilens.serve.pages.workload_table_money import WorkloadMoney
    from trilens.serve.pages.workload_table_rows import GoneWorkload
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute

PATH: Final = "/api/workload-table"
STATES: Final = ("running", "all")
_GONE_MS: Final = 24 * 3_600_000  # what went within
_GONE_EVERY_S: Final = 30.0


class WorkloadTableApi(PageApi):
    """`intakes` is None where nothing is watched. `costs` are its own: they are not thread-safe."""

    def __init__(
        self,
        scene: KeptScene,
        records: Workloads,
        money: WorkloadMoney,
        costs: WorkloadCosts,
        gpus: GpuBindings,
        detection: Callable[[], DetectionState],
        incidents: Callable[[], Sequence[Incident]],
        intakes: Intakes | None,
        questions: Questions,
    ) -> None:
        self._scene = scene
        self._records = records
        self._money = money
        self._costs = costs
        self._gpus = gpus
        self._detection = detection
        self._incidents = incidents
        self._intakes = intakes
        self._questions = questions
        self._lock = threading.Lock()
        self._gone: Sequence[GoneWorkload] = ()
        self._gone_read_s: float | None = None
        self._shared = {state: SharedAnswer(partial(self._body, WHOLE, state), questions) for state in STATES}

    def routes(self) -> list[GuardedRoute]:
        return [route(PATH, self.show, narrowed=True)]

    def looked(self) -> None:
        """Made anew while nobody waits. Those that are gone are seldom asked for."""
        self._shared["running"].looked()
        self._shared["all"].looked(for_nobody=False)

    async def show(self, request: Request) -> Response:
        params = await self._questions.params(request)
        state = params.first("state") or "running"
        if state not in STATES:
            raise RequestError(f'invalid parameter "state": {state!r} is none of {", ".join(STATES)}')
        sight = sight_of(request)
        if sight.is_whole:
            return await self._shared[state].answer(request)
        return await self._questions.answer_bytes(request, partial(self._body, sight, state))

    def _body(self, sight: Sight, state: str, guard: QueryGuard) -> bytes:
        warnings = sight.warnings(self._intakes.warnings() if self._intakes is not None else [])
        warnings += look_warnings(self._scene, self._questions.now_ms())
        scene = self._scene.now
        with self._lock:
            if scene is not None:
                self._costs.look(scene.priced, scene.now_ms)
            gone = self._gone_lately(guard) if state == "all" else ()
        known = Known(
            seen_jobs(scene, sight),
            [one for one in gone if sight.shows(one.key.cluster, one.team)],
            seen_findings(self._detection().open, self._records, sight, guard),
            seen_incidents(self._incidents(), self._records, sight, guard),
            self._money.by(sight).figures(guard),
            Counter(binding.pod for binding in self._gpus.held),
            self._costs.of,
            self._costs.currency,
        )
        return success(msgspec.json.encode(workload_table(known)), warnings)

    def _gone_lately(self, guard: QueryGuard) -> Sequence[GoneWorkload]:
        now_s = time.monotonic()
        if self._gone_read_s is None or now_s - self._gone_read_s >= _GONE_EVERY_S:
            now_ms = self._questions.now_ms()
            self._gone = gone_workloads(self._records.during(Span(now_ms - _GONE_MS, now_ms), guard=guard))
            self._gone_read_s = now_s
        return self._gone
