"""/allocation: the ledger as OpenCost's allocation API shows it, for tools that read that.

Amounts are JSON numbers here, and only here: its readers expect them. Who adds them up loses digits that
/api/cost keeps.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from trilens.ledger.answers.opencost import IDLE, UNALLOCATED, allocations
from trilens.model.errors import TrilensError
from trilens.model.ledger import HOUR_MS, as_amount
from trilens.model.ledger_sums import Window
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.sight import sight_of
from trilens.serve.envelope import JSON
from trilens.serve.money.opencost_params import (
    read_filter,
    read_idle,
    read_properties,
    read_sets,
    read_window,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from trilens.ledger.answers.opencost import Allocation
    from trilens.ledger.source import LedgerBook
    from trilens.model.query import QueryGuard
    from trilens.serve.money.opencost_params import Span
    from trilens.serve.questions import Questions

_MINUTE_MS: Final = 60_000
_NOT_KNOWN: Final = (
    "cpuCores",
    "cpuCoreHours",
    "cpuCoreRequestAverage",
    "cpuCoreUsageAverage",
    "cpuEfficiency",
    "ramBytes",
    "ramByteHours",
    "ramByteRequestAverage",
    "ramByteUsageAverage",
    "ramEfficiency",
    "pvBytes",
    "pvByteHours",
    "pvs",
    "networkTransferBytes",
    "networkReceiveBytes",
    "lbAllocations",
)
_NOTHING: Final = (
    "cpuCostAdjustment",
    "gpuCostAdjustment",
    "ramCostAdjustment",
    "pvCostAdjustment",
    "networkCostAdjustment",
    "networkCrossZoneCost",
    "networkCrossRegionCost",
    "networkInternetCost",
    "loadBalancerCost",
    "loadBalancerCostAdjustment",
    "sharedCost",
    "externalCost",
)
_COSTS: Final = {
    "cpuCost": "cpu",
    "gpuCost": "gpu",
    "ramCost": "memory",
    "pvCost": "storage",
    "networkCost": "network",
}
_SHARED: Final = {"cpuCostIdle": "cpu", "gpuCostIdle": "gpu", "ramCostIdle": "memory"}


class OpenCostApi:
    def __init__(
        self,
        book: LedgerBook,
        questions: Questions,
    ) -> None:
        self._book = book
        self._questions = questions

    async def compute(self, request: Request) -> Response:
        try:
            return await self._compute(request)
        except TrilensError as e:
            body = {"code": e.http_status, "data": None, "message": str(e)}
            return Response(orjson.dumps(body), e.http_status, media_type=JSON)

    async def _compute(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        span = read_window(params, datetime.fromtimestamp(now_ms / 1000, UTC))
        sets, by, idle = read_sets(params, span), read_properties(params), read_idle(params)
        where = read_filter(params)
        book = seen_book(self._book, sight_of(request))

        def body(guard: QueryGuard) -> bytes:
            data, unpriced_ms = [], 0
            for one in sets:
                guard.check()
                found = allocations(book, Window(*one.ms, where), by, idle, guard)
                unpriced_ms += sum(allocation.unpriced_ms for allocation in found)
                data.append({each.name: _answer(each, one, now_ms) for each in found})
            answer: dict[str, Any] = {"code": 200, "data": data}
            if unpriced_ms:
                answer["warning"] = f"{unpriced_ms / HOUR_MS:.2f} GPU-hours have no price and are in no cost"
            return orjson.dumps(answer)

        return await self._questions.answer_bytes(request, body)


def _answer(allocation: Allocation, span: Span, now_ms: int) -> dict[str, Any]:
    """Null is "not known": GPU time without a price has no cost, not a cost of nothing."""
    start_ms, end_ms = span.ms
    end_ms = max(start_ms + _MINUTE_MS, min(end_ms, now_ms))
    hours = (end_ms - start_ms) / HOUR_MS
    gpu_hours = allocation.gpu_ms / HOUR_MS
    priced = allocation.is_priced
    useful = allocation.useful_ms / allocation.signal_ms if allocation.signal_ms else None
    return {
        "name": allocation.name,
        "properties": _properties(allocation.properties),
        "window": {"start": _stamp(span.start), "end": _stamp(span.end)},
        "start": _stamp(datetime.fromtimestamp(start_ms / 1000, UTC)),
        "end": _stamp(datetime.fromtimestamp(end_ms / 1000, UTC)),
        "minutes": (end_ms - start_ms) / _MINUTE_MS,
        "gpuCount": gpu_hours / hours,
        "gpuHours": gpu_hours,
        **{key: _number(allocation.quanta[part]) if priced else None for key, part in _COSTS.items()},
        **{key: _number(allocation.shared[part]) for key, part in _SHARED.items()},
        "totalCost": _number(allocation.total) if priced else None,
        "gpuEfficiency": useful,
        "totalEfficiency": useful,
        **dict.fromkeys(_NOTHING, 0),
        **dict.fromkeys(_NOT_KNOWN),
    }


def _properties(named: Mapping[str, str]) -> dict[str, Any]:
    """A controller is a name and its kind; labels stand by themselves."""
    found: dict[str, Any] = {}
    for name, text in named.items():
        if text in (UNALLOCATED, IDLE):
            continue
        if name.startswith("label:"):
            found.setdefault("labels", {})[name.removeprefix("label:")] = text
        elif name == "controller":
            kind, _, controller = text.partition(":")
            found |= {"controllerKind": kind, "controller": controller}
        elif name in ("team", "department"):
            found.setdefault("labels", {})[name] = text
        elif name in ("cluster", "node", "namespace", "controllerKind"):
            found[name] = text
        else:
            found |= {"controllerKind": name, "controller": text}
    return found


def _number(quanta: int) -> float:
    return float(as_amount(quanta))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
