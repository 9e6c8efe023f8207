"""/api/prices: the price book in force, and which of its prices counts for a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from trilens.ledger.prices.view import PriceDoubt, book_answer, choice_answer, described
from trilens.model.errors import RequestError
from trilens.model.price import Purchase
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.prices.book import Prices
    from trilens.ledger.prices.view import ChoiceAnswer
    from trilens.model.machine import Machine, MachineInterval
    from trilens.model.query import QueryGuard
    from trilens.serve.questions import Questions

MACHINE: Final = ("gpu_model", "instance_type", "region", "provider", "purchase", "cluster", "node")


class KnownMachines(Protocol):
    def during(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Sequence[MachineInterval]: ...


class PricesApi:
    def __init__(
        self,
        book: Callable[[], Prices],
        machines: KnownMachines,
        questions: Questions,
    ) -> None:
        self._book = book
        self._machines = machines
        self._questions = questions

    async def every(self, request: Request) -> Response:
        answer = book_answer(self._book())
        return packed_response(pack(success(msgspec.json.encode(answer)), accepts_gzip(request)))

    async def choice(self, request: Request) -> Response:
        params = await self._questions.params(request)
        told = {name: params.first(name) for name in MACHINE}
        if not any(told.values()):
            raise RequestError(f"what does the machine look like? Give one or more of {', '.join(MACHINE)}")
        if told["purchase"] and told["purchase"] not in [*Purchase]:
            raise RequestError(f'invalid parameter "purchase": one of {", ".join(Purchase)}')
        now_ms = self._questions.now_ms()
        at_ms, gpus = params.when_ms("at", now_ms, now_ms), params.count("gpus")
        return await self._questions.answer(request, lambda guard: self._choice(told, gpus, at_ms, guard))

    def _choice(self, told: dict[str, str], gpus: int | None, at_ms: int, guard: QueryGuard) -> ChoiceAnswer:
        book = self._book()
        if not told["node"]:
            return choice_answer(book, described(told), gpus, at_ms)
        known = self._known(told["node"], told["cluster"], at_ms, guard)
        doubts = [_unknown(told["node"])] if known is None else []
        machine = described(told, known)
        return choice_answer(book, machine, gpus, at_ms, known=known is not None, doubts=doubts)

    def _known(self, node: str, cluster: str, at_ms: int, guard: QueryGuard) -> Machine | None:
        found = [
            one.machine
            for one in self._machines.during(at_ms, at_ms + 1, guard=guard)
            if one.machine.node == node and one.machine.cluster == (cluster or one.machine.cluster)
        ]
        if len(found) > 1:
            clusters = ", ".join(sorted(one.cluster for one in found))
            raise RequestError(
                f"there is a node {node!r} in several clusters: {clusters}", hint="name one of them"
            )
        return found[0] if found else None


def _unknown(node: str) -> PriceDoubt:
    return PriceDoubt(
        "machine-unknown",
        f"no machine with GPUs named {node} is known at that time: only what was asked for counts",
        "trilens cost --by node lists those that are",
    )
