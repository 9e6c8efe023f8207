"""/api/gpus: the GPUs at any moment, who holds them, and which are missing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.errors import RequestError
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.gpu_view import gpus_at
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.gpu_answers import GpuAnswer
    from trilens.serve.gpu_bindings import GpuBindings
    from trilens.serve.intakes import Intakes
    from trilens.serve.params import Params
    from trilens.serve.runner import QueryRunner
    from trilens.store.gpus import GpuRecords
    from trilens.store.workloads import WorkloadRecords

_NOTHING_KEPT: Final = "nothing is kept here about GPUs: no cluster is watched and samples are elsewhere"
_MISSING: Final = ("lost", "blind")
_TRUTH: Final = {"": False, "false": False, "true": True}


class GpusApi:
    """`gpus` and `workloads` are None where nothing is kept, `bindings` where nobody looks at the
    present, `intakes` where nothing is watched."""

    def __init__(
        self,
        gpus: GpuRecords | None,
        workloads: WorkloadRecords | None,
        bindings: GpuBindings | None,
        intakes: Intakes | None,
        runner: QueryRunner,
        max_body: int,
    ) -> None:
        self._gpus = gpus
        self._workloads = workloads
        self._bindings = bindings
        self._intakes = intakes
        self._runner = runner
        self._max_body = max_body

    async def every(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        at_ms = params.moment_ms("at", time.time_ns() // 1_000_000)
        now = self._bindings.now if self._bindings is not None and not params.first("at") else None
        is_wanted = _Wanted(params)
        warnings = self._intakes.warnings() if self._intakes is not None else []
        if now is not None and now.trouble:
            warnings.append(f"GPUs may be shown as they were: {now.trouble}")
        if self._gpus is None:
            warnings.append(_NOTHING_KEPT)
        guard, gzip = self._runner.guard(), accepts_gzip(request)

        def read(guard: QueryGuard) -> list[GpuAnswer]:
            if self._gpus is None or self._workloads is None:
                return []
            bindings = self._gpus.bindings_at(at_ms, guard=guard)
            members = self._workloads.members_at(at_ms, guard) if bindings else []
            found = gpus_at(
                self._gpus.gpus_at(at_ms, guard=guard),
                bindings,
                {member.membership.pod: member for member in members},
                now,
            )
            return [answer for answer in found if is_wanted(answer)]

        def work() -> tuple[bytes, bool]:
            return pack(success(msgspec.json.encode(read(guard)), warnings), gzip)

        return packed_response(await self._runner.run(request, guard, work))


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
