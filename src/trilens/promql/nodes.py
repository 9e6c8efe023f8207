"""The query as a tree of small values, each knowing where in the text it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from trilens.model.matcher import Matcher

At: TypeAlias = int | Literal["start", "end"]
"""The time an `@` fixes: milliseconds, or an end of the whole query."""

ValueKind: TypeAlias = Literal["scalar", "vector", "matrix", "string"]


@dataclass(frozen=True, slots=True)
class Number:
    pos: int
    value: float


@dataclass(frozen=True, slots=True)
class String:
    pos: int
    value: str


@dataclass(frozen=True, slots=True)
class Paren:
    pos: int
    expr: Expr


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus; a unary plus changes nothing and leaves no node."""

    pos: int
    expr: Expr


@dataclass(frozen=True, slots=True)
class Selector:
    pos: int
    name: str | None
    matchers: tuple[Matcher, ...]
    offset_ms: int
    at: At | None


@dataclass(frozen=True, slots=True)
class RangeSelector:
    pos: int
    selector: Selector
    range_ms: int


@dataclass(frozen=True, slots=True)
class Subquery:
    pos: int
    expr: Expr
    range_ms: int
    step_ms: int | None
    offset_ms: int
    at: At | None


@dataclass(frozen=True, slots=True)
class Call:
    pos: int
    function: str
    args: tuple[Expr, ...]
    returns: ValueKind


@dataclass(frozen=True, slots=True)
class Aggregate:
    pos: int
    op: str
    expr: Expr
    param: Expr | None
    labels: tuple[str, ...]
    without: bool


@dataclass(frozen=True, slots=True)
class Matching:
    """How two vectors are paired. The "many" side is the left one, unless `many_right`."""

    labels: tuple[str, ...] = ()
    on: bool = False
    grouped: bool = False
    many_right: bool = False
    include: tuple[str, ...] = ()
    fill_left: float | None = None
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    pos: int
    op: str
    lhs: Expr
    rhs: Expr
    matching: Matching
    return_bool: bool


Expr: TypeAlias = (
    Number | String | Paren | Negate | Selector | RangeSelector | Subquery | Call | Aggregate | Binary
)

SET_OPERATORS = frozenset({"and", "or", "unless"})
COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})

_TIME_DEPENDENT = frozenset(
    {"time", "timestamp", "predict_linear", "year", "month", "day_of_month", "day_of_week", "day_of_year"}
    | {"days_in_month", "hour", "minute"}
)


def unwrap(expr: Expr) -> Expr:
    """The expression inside any parentheses."""
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


def chain(expr: Binary) -> tuple[Expr, list[Binary]]:
    """`a + b + c ...` leans to the left: its first operand, and its operations in the order they are done."""
    links = [expr]
    while isinstance(links[-1].lhs, Binary):
        links.append(links[-1].lhs)
    return links[-1].lhs, links[::-1]


def value_kind(expr: Expr) -> ValueKind:
    match expr:
        case Number():
            return "scalar"
        case String():
            return "string"
        case Paren() | Negate():
            return value_kind(expr.expr)
        case RangeSelector() | Subquery():
            return "matrix"
        case Call():
            return expr.returns
        case Binary():
            first, links = chain(expr)
            kinds = {value_kind(first), *(value_kind(link.rhs) for link in links)}
            return "scalar" if kinds == {"scalar"} else "vector"
        case _:
            return "vector"


def same_at_every_step(expr: Expr) -> bool:
    """Whether the value cannot differ between the steps of a range query, so that one step is enough."""
    match expr:
        case Number() | String():
            return True
        case Selector() | Subquery():
            return expr.at is not None
        case RangeSelector():
            return expr.selector.at is not None
        case Paren() | Negate():
            return same_at_every_step(expr.expr)
        case Call():
            return expr.function not in _TIME_DEPENDENT and all(map(same_at_every_step, expr.args))
        case Aggregate():
            return same_at_every_step(expr.expr) and (expr.param is None or same_at_every_step(expr.param))
        case Binary():
            first, links = chain(expr)
            return same_at_every_step(first) and all(same_at_every_step(link.rhs) for link in links)
