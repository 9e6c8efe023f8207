"""Positions of nodes, formatting, selectors given as parameters, and what is not read here."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.model.errors import PromQLSyntaxError, PromQLUnsupported
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.promql import nodes
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.promql.parse import parse, prettify, selectors


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("rate(foo[5m] anchored)", "anchored"),
        ("rate(foo[5m] smoothed)", "smoothed"),
        ("rate(foo[5m + 1m])", "duration expression"),
        ("foo offset (2 * 5m)", "duration expression"),
        ("foo[step()]", "duration expression"),
        ('info(foo, {a=~".*"})', "info()"),
        ("foo >/ 1", "native histogram"),
    ],
)
def test_newer_syntax_is_named(query: str, what: str) -> None:
    with pytest.raises(PromQLUnsupported, match=what.replace("(", r"\(").replace(")", r"\)")):
        parse(query)


@pytest.mark.parametrize(
    "query",
    [
        "(" * 100_000 + "1" + ")" * 100_000,
        "-" * 900 + "1",
        "^".join(["2"] * 5000),
        ("-" * 40 + "(") * 20 + "1" + ")" * 20,
        "(a or b and c == d + e * " * 90 + "1" + ")" * 90,
        "sum by (a) (rate(" * 90 + "a[5m]" + "))" * 90,
    ],
    ids=["brackets", "signs", "powers", "signs within brackets", "operators that bind tighter", "calls"],
)
def test_an_expression_without_end_is_refused_before_it_is_parsed(query: str) -> None:
    """The parser would exhaust the stack, which no exception handler survives."""
    with pytest.raises(PromQLSyntaxError, match="too deeply"):
        parse(query)
    with pytest.raises(PromQLSyntaxError, match="too deeply"):
        prettify(query)


def test_more_operators_than_anybody_writes_are_refused() -> None:
    with pytest.raises(PromQLSyntaxError, match="too many operators") as told:
        parse("+".join(["a"] * 9000))
    assert told.value.position == 2001


def test_more_text_than_anybody_writes_is_refused_before_it_is_read() -> None:
    query = f'up{{instance=~"{"a|" * 200_000}"}}'
    for read in (parse, prettify):
        with pytest.raises(PromQLSyntaxError, match="has 400,016 characters; 262,144 are read"):
            read(query)


@pytest.mark.parametrize(
    ("opens", "closes"),
    [("abs(", ")"), ("(", ")"), ("-", ""), ("2 ^ ", ""), ("sum by (b) (", ")"), ("1 + (", ")")],
)
def test_the_deepest_that_is_read_is_answered_too(opens: str, closes: str) -> None:
    levels = 59 if opens == "1 + (" else 119  # an operator is a level of its own
    query = opens * levels + "m" + closes * levels
    source = MemorySource()
    source.add({"__name__": "m"}, [(0, 1.0)])
    guard = QueryGuard(timeout_s=60, max_samples=100_000, max_series=10)
    assert prettify(query)
    assert Engine(source).instant(query, 0, guard)
    with pytest.raises(PromQLSyntaxError, match="too deeply"):
        parse(opens * 2 + query + closes * 2)


def test_long_expressions_are_fine() -> None:
    terms = parse(" or ".join(["a"] * 1000))
    assert isinstance(terms, nodes.Binary)
    assert nodes.value_kind(terms) == "vector"


WORDS = "foo sum rate by on offset bool and group_left fill start() 5m 1 0x1F Inf"
MARKS = '=~ != ( ) [ ] { } , + - * / ^ % @ : = < > ! ~ $ # é "a" \'b `c`'
PIECES = st.sampled_from([*WORDS.split(), *MARKS.split(), "\n"])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map(" ".join))
def test_any_text_is_a_query_or_an_error_that_points_into_it(text: str) -> None:
    try:
        parse(text)
    except PromQLSyntaxError as e:
        assert e.position is not None
        assert 0 <= e.position <= len(text)
    except PromQLUnsupported:
        pass


def _positions(expr: nodes.Expr) -> dict[str, int]:
    """Where each kind of node begins; the last of a kind wins."""
    found = {type(expr).__name__: expr.pos}
    match expr:
        case nodes.Paren() | nodes.Negate() | nodes.Subquery():
            found |= _positions(expr.expr)
        case nodes.Call():
            for arg in expr.args:
                found |= _positions(arg)
        case nodes.Aggregate():
            found |= (_positions(expr.param) if expr.param else {}) | _positions(expr.expr)
        case nodes.Binary():
            found |= _positions(expr.lhs) | _positions(expr.rhs)
    return found


def test_every_node_knows_where_it_began() -> None:
    query = 'topk by (a) (3, -rate(foo{b="c, )"}[5m] offset -1m @ 7)) + on (a) group_left (d) fill (0) (bar)'
    assert _positions(parse(query)) == {
        "Binary": 0,
        "Aggregate": 0,
        "Number": query.index("3"),
        "Negate": query.index("-rate"),
        "Call": query.index("rate"),
        "RangeSelector": query.index("foo"),
        "Paren": query.index("(bar)"),
        "Selector": query.index("bar"),
    }


def test_modifiers_are_read() -> None:
    subquery = parse("(foo @ -1.5)[5m:30s] @ end() offset 2m")
    assert isinstance(subquery, nodes.Subquery)
    assert (subquery.range_ms, subquery.step_ms, subquery.offset_ms, subquery.at) == (
        300_000,
        30_000,
        120_000,
        "end",
    )
    inner = nodes.unwrap(subquery.expr)
    assert isinstance(inner, nodes.Selector)
    assert inner.at == -1500


def test_a_metric_may_be_called_like_a_modifier() -> None:
    expr = parse("other + fill(0) fill")
    assert isinstance(expr, nodes.Binary)
    assert expr.matching.fill_left == expr.matching.fill_right == 0
    assert isinstance(expr.rhs, nodes.Selector)
    assert (expr.rhs.name, expr.rhs.pos) == ("fill", 16)


def test_an_escape_may_spell_a_byte_that_is_no_text() -> None:
    expr = parse(r'"a\xffb\u00e9\n"')
    assert isinstance(expr, nodes.String)
    assert expr.value == "a\udcffbé\n"


def test_prettify() -> None:
    assert prettify('sum  by(a) (rate(foo{b="c"}[5m:]))') == 'sum by (a) (rate(foo{b="c"}[5m:]))'
    with pytest.raises(PromQLSyntaxError):
        prettify("sum(")


def test_selectors() -> None:
    assert selectors('up{job=~"a|b", x!="y"}') == (
        Matcher("__name__", "=", "up"),
        Matcher("job", "=~", "a|b"),
        Matcher("x", "!=", "y"),
    )
    for text in ("sum(up)", "up[5m]", "up offset 5m", "up @ 3", "1"):
        with pytest.raises(PromQLSyntaxError):
            selectors(text)


def test_long_queries_are_not_remembered() -> None:
    """A thousand of a megabyte each would fill the memory."""
    usual, long = 'a{b="c"}', f'a{{b="{"c" * 5_000}"}}'
    assert parse(usual) is parse(usual)
    assert parse(long) == parse(long)
    assert parse(long) is not parse(long)
