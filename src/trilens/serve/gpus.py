"""/api/gpus: the GPUs at any moment, who holds them, and which are missing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from trilens.model.errors import RequestError
from trilens.serve.access.seen_workloads import seen_workloads
from trilens.serve.access.sight import sight_of
from trilens.serve.gpu_view import gpus_at, seen_gpus, with_faults

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.gpu_answers import GpuAnswer
    from trilens.serve.gpu_bindings import GpuBindings
    from trilens.serve.intakes import Intakes
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions
    from trilens.serve.standing_faults import GpuFaults
    from trilens.store.gpus import GpuRecords

_MISSING: Final = ("lost", "blind")
_TRUTH: Final = {"": False, "false": False, "true": True}


class GpusApi:
    """`intakes` is None where nothing is watched, `bindings` tells of the present."""

    def __init__(
        self,
        gpus: GpuRecords,
        workloads: Workloads,
        bindings: GpuBindings,
        faults: GpuFaults,
        intakes: Intakes | None,
        questions: Questions,
    ) -> None:
        self._gpus = gpus
        self._workloads = workloads
        self._bindings = bindings
        self._faults = faults
        self._intakes = intakes
        self._questions = questions

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        at_ms = params.moment_ms("at", time.time_ns() // 1_000_000)
        now = self._bindings.now if not params.first("at") else None
        is_wanted = _Wanted(params)
        troubles = self._intakes.warnings() if self._intakes is not None else []
        if now is not None and now.trouble:
            troubles.append(f"GPUs may be shown as they were: {now.trouble}")
        sight = sight_of(request)
        workloads = seen_workloads(self._workloads, sight)

        def read(guard: QueryGuard) -> list[GpuAnswer]:
            bindings = self._gpus.bindings_at(at_ms, guard=guard)
            seen = workloads.members_at(at_ms, guard) if bindings else []
            members = {member.membership.pod: member for member in seen}
            found = gpus_at(self._gpus.gpus_at(at_ms, guard=guard), bindings, members, now)
            if not sight.is_whole:
                found = seen_gpus(found, members.keys(), sight)
            wanted = [answer for answer in found if is_wanted(answer)]
            return with_faults(wanted, self._faults.at(at_ms, guard)) if now is not None else wanted

        return await self._questions.answer(request, read, sight.warnings(troubles))


class _Wanted:
    """Of a cluster is a GPU there, and one that something there holds: a machine may be in no cluster."""

    def __init__(self, params: Params) -> None:
        self._cluster, self._node = params.first("cluster"), params.first("node")
        self._namespace, self._workload = params.first("namespace"), params.first("workload")
        written = params.first("lost")
        if written not in _TRUTH:
            raise RequestError(f'invalid parameter "lost": {written!r} is neither true nor false')
        self._lost = _TRUTH[written]

    def __call__(self, gpu: GpuAnswer) -> bool:
        if self._cluster and self._cluster not in (gpu.cluster, *(one.cluster for one in gpu.holders)):
            return False
        if self._node and gpu.node != self._node:
            return False
        if self._namespace and not any(one.namespace == self._namespace for one in gpu.holders):
            return False
        if self._workload and not any(one.workload == self._workload for one in gpu.holders):
            return False
        return not self._lost or gpu.state in _MISSING
