"""/api/prices: the price book in force, and which of its prices counts for a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trilens.ledger.prices.view import book_answer, choice_answer, described
from trilens.model.errors import RequestError
from trilens.model.price import Purchase
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.money.cost_params import clock_ms
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.prices.book import Prices
    from trilens.ledger.prices.view import BookAnswer, ChoiceAnswer

MACHINE: Final = ("gpu_model", "instance_type", "region", "provider", "purchase", "cluster", "node")


class PricesApi:
    def __init__(
        self, book: Callable[[], Prices], max_body: int, *, now_ms: Callable[[], int] = clock_ms
    ) -> None:
        self._book = book
        self._max_body = max_body
        self._now_ms = now_ms

    async def every(self, request: Request) -> Response:
        return _reply(request, book_answer(self._book()))

    async def choice(self, request: Request) -> Response:
        params = await read_params(request, self._max_body)
        told = {name: params.first(name) for name in MACHINE}
        if not any(told.values()):
            raise RequestError(f"what does the machine look like? Give one or more of {', '.join(MACHINE)}")
        if told["purchase"] and told["purchase"] not in [*Purchase]:
            raise RequestError(f'invalid parameter "purchase": one of {", ".join(Purchase)}')
        at_ms = params.time_ms("at", self._now_ms())
        return _reply(request, choice_answer(self._book(), described(told), params.count("gpus") or 1, at_ms))


def _reply(request: Request, data: BookAnswer | ChoiceAnswer) -> Response:
    return packed_response(pack(success(msgspec.json.encode(data)), accepts_gzip(request)))
