"""A query in which every selector has further matchers: for who may see only some series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.promql import nodes
from trilens.promql.annotations import quote
from trilens.promql.parse import parse
from trilens.promql.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.model.matcher import Matcher
    from trilens.promql.nodes import Expr


def bounded(query: str, matchers: Sequence[Matcher]) -> str:
    """Raises PromQLSyntaxError or PromQLUnsupported: what is not read here cannot be bounded."""
    if not matchers:
        return query
    wanted = {one.pos for one in _selectors(parse(query))}
    added = ",".join(f"{one.name}{one.op}{quote(one.value)}" for one in matchers)
    pieces: list[str] = []
    done = 0
    tokens = tokenize(query)
    for at, token in enumerate(tokens):
        if token.pos not in wanted:
            continue
        opened = token if token.text == "{" else tokens[at + 1] if at + 1 < len(tokens) else None
        if opened is not None and opened.text == "{":
            pieces += [query[done : opened.end], f"{added},"]
            done = opened.end
        else:
            pieces += [query[done : token.end], f"{{{added}}}"]
            done = token.end
    narrower = "".join([*pieces, query[done:]])
    for selector in _selectors(parse(narrower)):
        assert set(matchers) <= set(selector.matchers), narrower
    return narrower


def _selectors(expr: Expr) -> Iterator[nodes.Selector]:
    match expr:
        case nodes.Selector():
            yield expr
        case nodes.RangeSelector():
            yield expr.selector
        case nodes.Paren() | nodes.Negate() | nodes.Subquery():
            yield from _selectors(expr.expr)
        case nodes.Call():
            for one in expr.args:
                yield from _selectors(one)
        case nodes.Aggregate():
            yield from _selectors(expr.expr)
            if expr.param is not None:
                yield from _selectors(expr.param)
        case nodes.Binary():
            yield from _selectors(expr.lhs)
            yield from _selectors(expr.rhs)
        case nodes.Number() | nodes.String():
            pass
