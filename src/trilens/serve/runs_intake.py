"""/api/v1/runs/records: what programs tell of their runs (docs/sdk-protocol.md)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson
from starlette.responses import Response

from trilens.collect.cluster_bound import own_cluster
from trilens.model.errors import Forbidden, RunIntakeBusy, RunRecordsError, StoreError
from trilens.model.workload import PodKey
from trilens.serve.access.told_addresses import teller_of
from trilens.serve.envelope import JSON, failure, success
from trilens.serve.params import read_body, read_params
from trilens.serve.routes import identity_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from starlette.requests import Request

    from trilens.collect.runs.intake import RunIntake
    from trilens.collect.runs.wire import ProcessTold, Reading
    from trilens.serve.access.told_addresses import ToldAddresses

_RETRY_AFTER_S: Final = 5  # while the disk takes nothing


class RunRecordsApi:
    def __init__(
        self, intake: RunIntake, told: ToldAddresses, threads: ThreadPoolExecutor, max_body: int
    ) -> None:
        self._intake = intake
        self._told = told
        self._threads = threads
        self._max_body = max_body

    async def take(self, request: Request) -> Response:
        loop, intake = asyncio.get_running_loop(), self._intake
        for_dead = (await read_params(request, 0)).first("for_dead") == "true"
        body = await read_body(request, self._max_body)
        encoding = request.headers.get("content-encoding", "")
        clusters = identity_of(request).grant.clusters
        reading = await loop.run_in_executor(self._threads, intake.read, body, encoding)
        await self._check_address(reading, request)
        try:
            taking = partial(intake.take, reading, for_dead=for_dead, clusters=clusters)
            receipt = await loop.run_in_executor(self._threads, taking)
            taken = await asyncio.wrap_future(receipt.taken)
        except RunIntakeBusy as e:
            return _later(failure(e), e.retry_after_s)
        except StoreError as e:
            return _later(failure(e), _RETRY_AFTER_S)
        if receipt.refusal is not None:
            return _refused(receipt.refusal)
        data = {"seq": taken.seq, "interval_s": taken.interval_s}
        return Response(success(orjson.dumps(data)), media_type=JSON)

    async def _check_address(self, reading: Reading, request: Request) -> None:
        """Of a process's addresses the last one counts; in no thread of the intake, because it may be a name.
        It is None where it is not to be asked."""
        last = None
        for told in reading.processes:
            last, told.metrics_address = told.metrics_address, None
        if last:
            clusters = identity_of(request).grant.clusters
            teller = teller_of(request, _pod(told, clusters))
            told.metrics_address = await self._told.admitted_or_none(last, teller)


def _pod(told: ProcessTold, clusters: frozenset[str] | None) -> PodKey:
    """Unknown where its cluster is none that the sender may tell of: its records will not be taken either."""
    try:
        cluster = told.cluster or ""
        cluster = own_cluster(cluster, clusters) if clusters is not None else cluster
    except Forbidden:
        return PodKey("", "", "", "")
    return PodKey(cluster, told.namespace or "", told.pod or "", told.pod_uid or "")


def _later(response: Response, seconds: int) -> Response:
    response.headers["Retry-After"] = str(seconds)
    return response


def _refused(error: RunRecordsError) -> Response:
    body = {
        "status": "error",
        "errorType": error.prometheus_type,
        "error": str(error),
        "data": {"seq": error.seq},
    }
    return Response(orjson.dumps(body), error.http_status, media_type=JSON)
