"""Queries: read, formatted and evaluated over a few series, within the limits that every query has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from bench.torture.fuzz.corpora import shared
from bench.torture.fuzz.target import MANY, Target
from trilens.model.errors import TrilensError
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.promql.parse import parse, prettify
from trilens.promql.signatures import SIGNATURES
from trilens.promql.vocabulary import AGGREGATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

_NOW_MS: Final = 1_763_000_000_000
_EVAL: Final = re.compile(
    rb"^\s*eval(?:_\w+)?\s+(?:instant at \S+|range from \S+ to \S+ step \S+)\s+(.+)$", re.M
)
_TIMEOUT_S: Final = 5.0
_MOST_SAMPLES: Final = 200_000
_MOST_SERIES: Final = 10_000


def _source() -> MemorySource:
    source = MemorySource()
    for at, odd in enumerate((0.0, 1.5, float("inf"), float("nan"))):
        samples = [(_NOW_MS - 15_000 * k, odd + k * (at + 1)) for k in range(40)]
        source.add({"__name__": "m", "a": "xyzw"[at], "b": "1"}, samples)
        source.add({"__name__": "h_bucket", "a": "x", "le": ("0.1", "1", "5", "+Inf")[at]}, samples)
    source.add({"__name__": "info", "a": "x", "c": 'quoted " \\ \n 🙂'}, [(_NOW_MS, 1.0)])
    return source


_engine = Engine(_source())


def _take(data: bytes) -> None:
    query = data.decode("utf-8", "replace")
    tree = parse(query)
    written = prettify(query)
    assert parse(written) is not None, written
    assert prettify(written) == written
    del tree
    _asked(query)


def _asked(query: str) -> None:
    refusals = []
    for way in (_instant, _range):
        try:
            way(query)
        except TrilensError as e:
            refusals.append(e)
    if len(refusals) > 1:
        raise refusals[0]


def _instant(query: str) -> None:
    _engine.instant(query, _NOW_MS, _guard())


def _range(query: str) -> None:
    _engine.range(query, _NOW_MS - 600_000, _NOW_MS, 60_000, _guard())


def _guard() -> QueryGuard:
    return QueryGuard(timeout_s=_TIMEOUT_S, max_samples=_MOST_SAMPLES, max_series=_MOST_SERIES)


_QUERIES: Final = (
    b"m",
    b'm{a=~"x|y",b!="2"} offset 1m',
    b"sum by (a) (rate(m[5m]))",
    b"topk(2, m) or vector(0)",
    b"histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))",
    b"m * on() group_left(c) info",
    b"max_over_time(rate(m[2m])[10m:1m])",
    b"quantile_over_time(0.5, m[5m] @ 1763000000) > bool 1",
    b'label_replace(m, "c", "$1-x", "a", "(.*)")',
    b'count_values("v", m) unless absent(nothing)',
    b"-m ^ 2 % 3 atan2 1e3",
    b"sort_desc(avg without (a, b) (m)) == 1.5",
    b"(time() - timestamp(m)) / 60",
    b"clamp(deriv(m[10m]), -Inf, NaN)",
)


def _seeds() -> Iterator[bytes]:
    """Some of our own, and the queries of Prometheus's own scripts."""
    yield from _QUERIES
    for script in shared("promql/*.test"):
        yield from _EVAL.findall(script)


def _large() -> Iterator[bytes]:
    for piece in (b"(", b"-", b"m + ", b"sum(", b"{", b"9", b"a", b'"', b"#", b" ", b"\\", b"m[5m:] "):
        yield piece * MANY
    yield b"m{" + b'a="b",' * (MANY // 2) + b"}"
    yield b'm{a=~"' + b"(a|b)*" * (MANY // 4) + b'"}'
    yield b"sum by (" + b"a," * MANY + b"b) (m)"


def _shaped() -> SearchStrategy[bytes]:
    numbers = ("0", "1", "-3", "1e400", "0x1F", "NaN", "Inf", "1h30m", ".5", "18446744073709551616")
    label = st.sampled_from(("a", "b", "c", "le", "__name__", "x"))
    text = st.sampled_from(('"x"', "'y'", "`z`", '".*"', '"\\x00"', '"(a|"', '"$1"', '"\\U0010ffff"', '""'))
    matcher = st.builds("{}{}{}".format, label, st.sampled_from(("=", "!=", "=~", "!~")), text)
    times = st.sampled_from(
        ("", " offset 5m", " offset -1h", " @ 1763000000", " @ start()", " @ end()", " @ 1e300")
    )
    spans = st.sampled_from(("[5m]", "[1s]", "[1000y]", "[5m:]", "[5m:1s]", "[1h:1ms]"))
    names = st.sampled_from(("m", "h_bucket", "info", "nothing", ""))
    matchers = st.lists(matcher, max_size=2).map(",".join).map("{{{}}}".format) | st.just("")
    selector = st.builds("{}{}{}".format, names, matchers, times)

    def larger(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        ranged = st.builds("({}){}{}".format, inner, spans, times) | st.builds("{}{}".format, selector, spans)
        arguments = st.lists(inner | ranged | text, max_size=4).map(", ".join)
        call = st.builds("{}({})".format, st.sampled_from(sorted(SIGNATURES)), arguments)
        by = st.builds(" {} ({}) ".format, st.sampled_from(("by", "without")), label) | st.just("")
        whole = st.builds("{}{}({})".format, st.sampled_from(sorted(AGGREGATIONS)), by, arguments)
        sides = st.sampled_from(
            ("", " bool", " on(a)", " ignoring(b)", " on(a) group_left(c)", " on() group_right()")
        )
        operator = st.sampled_from(("+", "-", "*", "/", "%", "^", "==", ">", "and", "or", "unless", "atan2"))
        both = st.builds("({}) {}{} ({})".format, inner, operator, sides, inner)
        return call | whole | both | inner.map("-({})".format)

    queries = st.recursive(selector | st.sampled_from(numbers) | text, larger, max_leaves=8)
    return queries.map(str.encode)


PROMQL: Final = Target("promql", "PromQL: parsed, formatted, evaluated", _take, _seeds, _shaped, _large)
