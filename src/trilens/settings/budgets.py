"""How much may be spent, by whom."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from trilens.settings.group import Group

_LEAST: Final = Decimal("0.01")
_MOST: Final = Decimal(10**15)
_CURRENCY: Final = re.compile(r"[A-Z]{3}")


def _read_amount(value: Any) -> Any:
    """YAML has made a float of 1250.50 already; its shortest text is what was written."""
    if isinstance(value, bool):
        raise ValueError("an amount is a number")
    try:
        return Decimal(repr(value) if isinstance(value, float) else str(value))
    except InvalidOperation as e:
        raise ValueError(f"{value!r} is not an amount; write it like 25000 or 1250.50") from e


Amount = Annotated[Decimal, BeforeValidator(_read_amount)]


class Budget(Group):
    """Whose, and how much. Exactly one of `team`, `namespace` and `cluster` is named."""

    team: str | None = None
    namespace: str | None = None
    cluster: str | None = None
    amount: Amount
    currency: str
    period: Literal["month"] = "month"  # of UTC

    @property
    def of(self) -> tuple[str, str]:
        """`("team", "vision")`: what it bounds, as `trilens cost --by` names it."""
        kind = next(kind for kind in ("team", "namespace", "cluster") if getattr(self, kind) is not None)
        return kind, str(getattr(self, kind))

    @field_validator("amount")
    @classmethod
    def _more_than_nothing(cls, amount: Decimal) -> Decimal:
        if amount <= 0:
            raise ValueError("a budget is more than 0")
        if not _LEAST <= amount <= _MOST:
            raise ValueError(f"a budget of {amount} cannot be meant: write {_LEAST} to {_MOST:,}")
        return amount

    @field_validator("currency")
    @classmethod
    def _has_three_letters(cls, currency: str) -> str:
        if not _CURRENCY.fullmatch(currency):
            raise ValueError(f"{currency!r} is not a currency; write its three letters, such as USD or EUR")
        return currency

    @model_validator(mode="after")
    def _is_of_one(self) -> Budget:
        named = [one for one in (self.team, self.namespace, self.cluster) if one is not None]
        if len(named) != 1:
            raise ValueError("a budget is of exactly one: name `team`, `namespace` or `cluster`")
        return self


class BudgetsSettings(Group):
    """Each is `{team: vision, amount: 25000, currency: USD, period: month}`, or of a `namespace` or a
    `cluster`. A month is one of UTC. Taken over on SIGHUP or a POST to `/-/reload`."""

    limits: tuple[Budget, ...] = Field(
        default=(), description="What teams, namespaces or clusters may spend: [cost.md](cost.md)."
    )

    @field_validator("limits")
    @classmethod
    def _are_of_different(cls, limits: tuple[Budget, ...]) -> tuple[Budget, ...]:
        seen: set[tuple[str, str]] = set()
        for budget in limits:
            if budget.of in seen:
                kind, name = budget.of
                raise ValueError(f"the {kind} {name!r} has a second budget")
            seen.add(budget.of)
        return limits
