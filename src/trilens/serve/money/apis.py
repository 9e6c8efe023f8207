"""What is asked of money."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from trilens.model.identity import Right
from trilens.serve.routes import route

if TYPE_CHECKING:
    from trilens.serve.money.cost import CostApi
    from trilens.serve.money.cost_units import CostUnitsApi
    from trilens.serve.money.focus import FocusApi
    from trilens.serve.money.ledger import LedgerApi
    from trilens.serve.money.opencost import OpenCostApi
    from trilens.serve.money.prices import PricesApi
    from trilens.serve.routes import GuardedRoute

_OPENCOST: Final = (
    "/allocation",
    "/allocation/compute",
    "/model/allocation",
    "/model/allocation/compute",
)


@dataclass(frozen=True, slots=True)
class MoneyApis:
    ledger: LedgerApi
    cost: CostApi
    focus: FocusApi
    units: CostUnitsApi
    prices: PricesApi
    opencost: OpenCostApi

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/cost", self.cost.every, narrowed=True),
            route("/api/cost/why", self.cost.why, narrowed=True),
            route("/api/cost/now", self.cost.now, narrowed=True),
            route("/api/cost/focus", self.focus.export, narrowed=True),
            route("/api/cost/units", self.units.every, narrowed=True),
            route("/api/prices", self.prices.every),
            route("/api/prices/choice", self.prices.choice),
            route("/api/ledger", self.ledger.state),
            route("/api/ledger/hours", self.ledger.hours, narrowed=True),
            route("/api/ledger/verify", self.ledger.verify),
            route("/api/ledger/recompute", self.ledger.recompute, "POST", needs=Right.ADMIN),
            # Each a partial: the endpoint is what tells routes apart where requests are counted.
            *(route(path, partial(self.opencost.compute), narrowed=True) for path in _OPENCOST),
        ]
