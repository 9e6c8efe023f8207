"""Text to tree: promql-parser makes it of a query without fault, the tokens give every node its position."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import promql_parser

from trilens.model.errors import PromQLSyntaxError
from trilens.model.matcher import Matcher
from trilens.promql import nodes
from trilens.promql.grammar import check
from trilens.promql.signatures import SIGNATURES
from trilens.promql.tokens import closing, one_too_many, string_value, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from trilens.promql.nodes import At, Expr
    from trilens.promql.tokens import Token

_OPS: Final[dict[str, Any]] = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_LONGEST_REMEMBERED: Final = 5_000  # what is read takes twenty times as much: long ones would fill the memory
_LONGEST: Final = (
    256 * 1024
)  # thousands of GPUs by their UUIDs; a pattern of a megabyte takes RE2 many seconds
_MATCHING_WORDS: Final = frozenset(
    {"on", "ignoring", "group_left", "group_right", "fill", "fill_left", "fill_right"}
)


def parse(query: str) -> Expr:
    """Raises PromQLSyntaxError with the position, or PromQLUnsupported for PromQL that is not read here."""
    return _remembered(query) if len(query) <= _LONGEST_REMEMBERED else _read(query)


def _read(query: str) -> Expr:
    tokens = _tokens(query)
    return _Reader(query, tokens).read(_parse(query, tokens))


_remembered = lru_cache(maxsize=1024)(_read)  # rules and dashboards ask the same all day


def prettify(query: str) -> str:
    """The query, formatted on several lines where it is long."""
    text: str = _parse(query, _tokens(query)).prettify()
    return text


def selectors(text: str) -> tuple[Matcher, ...]:
    """A `match[]` parameter: one selector without range, offset or `@`."""
    expr = nodes.unwrap(parse(text))
    if not isinstance(expr, nodes.Selector) or expr.offset_ms or expr.at is not None:
        raise PromQLSyntaxError("expected a series selector", query=text, position=expr.pos)
    return expr.matchers


def _tokens(query: str) -> list[Token]:
    if len(query) > _LONGEST:
        what = f"the expression has {len(query):,} characters; {_LONGEST:,} are read"
        raise PromQLSyntaxError(what, query=query[:_LONGEST], position=_LONGEST)
    return tokenize(query)


def _parse(query: str, tokens: list[Token]) -> Any:
    # What is too long, or as the check says too deep, must not come to the parser: it would run out of stack,
    # and take the process with it.
    too_long = one_too_many(tokens)
    if too_long is not None:
        raise PromQLSyntaxError("the expression has too many operators", query=query, position=too_long.pos)
    check(query, tokens)
    try:
        return promql_parser.parse(query)
    except ValueError as e:
        said = str(e)
        pattern = said.removeprefix("illegal regex for ")  # it knows another dialect than RE2
        strings = (t for t in tokens if t.kind == "string" and string_value(t.text) == pattern)
        at = next(strings, tokens[0])
        raise PromQLSyntaxError(f"cannot be read: {said}", query=query, position=at.pos) from e


def _milliseconds(delta: timedelta | None) -> int:
    return 0 if delta is None else round(delta.total_seconds() * 1000)


class _Reader:
    """Walks the parser's tree and the tokens side by side: both name the same things in the same order."""

    def __init__(self, query: str, tokens: list[Token]) -> None:
        self._query = query
        self._tokens = tokens
        self._next = 0
        self._readers: dict[type, Callable[[Any, int], Expr]] = {
            promql_parser.NumberLiteral: self._number,
            promql_parser.StringLiteral: self._string,
            promql_parser.ParenExpr: self._paren,
            promql_parser.UnaryExpr: self._negate,
            promql_parser.VectorSelector: self._instant_selector,
            promql_parser.MatrixSelector: self._range_selector,
            promql_parser.SubqueryExpr: self._subquery,
            promql_parser.Call: self._call,
            promql_parser.AggregateExpr: self._aggregate,
            promql_parser.BinaryExpr: self._binary,
        }

    def read(self, node: Any) -> Expr:
        while self._peek() == "+":  # a unary plus has no node
            self._next += 1
        return self._readers[type(node)](node, self._here())

    def _number(self, node: Any, pos: int) -> Expr:
        while self._peek() in ("-", "+"):
            self._next += 1
        self._next += 1
        return nodes.Number(pos, node.val)

    def _string(self, node: Any, pos: int) -> Expr:
        self._next += 1
        return nodes.String(pos, string_value(self._tokens[self._next - 1].text))

    def _paren(self, node: Any, pos: int) -> Expr:
        self._take("(")
        expr = self.read(node.expr)
        self._take(")")
        return nodes.Paren(pos, expr)

    def _negate(self, node: Any, pos: int) -> Expr:
        self._take("-")
        return nodes.Negate(pos, self.read(node.expr))

    def _instant_selector(self, node: Any, pos: int) -> Expr:
        self._skip_selector()
        return self._selector(node, pos, self._skip_times())

    def _range_selector(self, node: Any, pos: int) -> Expr:
        self._skip_selector()
        self._skip_group()
        selector = self._selector(node.vector_selector, pos, self._skip_times())
        return nodes.RangeSelector(pos, selector, _milliseconds(node.range))

    def _subquery(self, node: Any, pos: int) -> Expr:
        expr = self.read(node.expr)
        self._skip_group()
        at = self._skip_times()
        step = _milliseconds(node.step) or None
        return nodes.Subquery(pos, expr, _milliseconds(node.range), step, _milliseconds(node.offset), at)

    def _call(self, node: Any, pos: int) -> Expr:
        self._next += 1
        args = self._arguments(node.args)
        return nodes.Call(pos, node.func.name, args, SIGNATURES[node.func.name].returns)

    def _aggregate(self, node: Any, pos: int) -> Expr:
        self._next += 1
        self._skip_grouping()
        inner = [node.expr] if node.param is None else [node.param, node.expr]
        args = self._arguments(inner)
        self._skip_grouping()
        modifier = node.modifier
        without = modifier is not None and modifier.type == promql_parser.AggModifierType.Without
        labels = tuple(modifier.labels) if modifier is not None else ()
        param = args[0] if len(args) == 2 else None
        return nodes.Aggregate(pos, str(node.op), args[-1], param, labels, without)

    def _binary(self, node: Any, pos: int) -> Expr:
        chain = []  # `a + b + c ...` leans to the left: read it in a loop, however long it is
        while isinstance(node, promql_parser.BinaryExpr):
            chain.append(node)
            node = node.lhs
        expr = self.read(node)
        for link in reversed(chain):
            self._next += 1
            if self._peek() == "bool":
                self._next += 1
            while self._peek() in _MATCHING_WORDS and self._starts_modifier():
                self._next += 1
                self._skip_group()
            rhs = self.read(link.rhs)
            modifier = link.modifier
            return_bool = modifier is not None and modifier.return_bool
            expr = nodes.Binary(pos, str(link.op), expr, rhs, _matching(modifier), return_bool)
        return expr

    def _starts_modifier(self) -> bool:
        """`fill` and its kin may also be metric names; as modifiers they have a number in brackets."""
        if not self._peek().startswith("fill"):
            return True
        return self._peek(1) == "("

    def _selector(self, node: Any, pos: int, at: At | None) -> nodes.Selector:
        matchers = [Matcher(m.name, _OPS[str(m.op).split(".")[-1]], m.value) for m in node.matchers.matchers]
        name = node.name
        if name:
            matchers.insert(0, Matcher("__name__", "=", name))
        return nodes.Selector(pos, name, tuple(matchers), _milliseconds(node.offset), at)

    def _arguments(self, args: list[Any]) -> tuple[Expr, ...]:
        self._take("(")
        read = []
        for arg in args:
            read.append(self.read(arg))
            if self._peek() == ",":
                self._next += 1
        self._take(")")
        return tuple(read)

    def _skip_selector(self) -> None:
        if self._peek() != "{":
            self._next += 1
        if self._peek() == "{":
            self._skip_group()

    def _skip_group(self) -> None:
        """Past a bracketed group, if one starts here."""
        if self._peek() in ("(", "{", "["):
            end = closing(self._tokens, self._next)
            assert end is not None, "the parser accepted unbalanced brackets"
            self._next = end + 1

    def _skip_grouping(self) -> None:
        if self._peek() in ("by", "without"):
            self._next += 1
            self._skip_group()

    def _skip_times(self) -> At | None:
        """Past `offset` and `@`; the time that `@` fixes, which the parser cannot give before 1970."""
        at: At | None = None
        while self._peek() in ("offset", "@"):
            fixes = self._peek() == "@"
            self._next += 1
            sign = 1
            while self._peek() in ("-", "+"):
                sign = -sign if self._peek() == "-" else sign
                self._next += 1
            word = self._peek()
            self._next += 1
            if fixes and word in ("start", "end"):
                at = "start" if word == "start" else "end"
                self._skip_group()
            elif fixes:
                at = sign * round(promql_parser.parse(word).val * 1000)  # type: ignore[attr-defined]
        return at

    def _peek(self, ahead: int = 0) -> str:
        at = self._next + ahead
        return self._tokens[at].text.lower() if at < len(self._tokens) else ""

    def _here(self) -> int:
        return self._tokens[self._next].pos if self._next < len(self._tokens) else len(self._query)

    def _take(self, text: str) -> None:
        token = self._tokens[self._next]
        assert token.text == text, f"expected {text!r} at {token.pos}, read {token.text!r}"
        self._next += 1


def _matching(modifier: Any) -> nodes.Matching:
    if modifier is None:
        return nodes.Matching()
    card = str(modifier.card).split(".")[-1]
    matching = modifier.matching
    return nodes.Matching(
        labels=tuple(matching.labels) if matching is not None else (),
        on=matching is not None and matching.type == promql_parser.LabelModifierType.Include,
        grouped=card in ("ManyToOne", "OneToMany"),
        many_right=card == "OneToMany",
        include=tuple(modifier.group_labels or ()),
        fill_left=modifier.fill_values.lhs,
        fill_right=modifier.fill_values.rhs,
    )
