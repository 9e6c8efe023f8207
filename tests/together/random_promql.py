"""Queries over the metrics of random_series.py, as hypothesis draws them.

Left out, because Prometheus 2.42 lacks them or differs from 3, or because neither promises an answer:

- mad_over_time, first_over_time, sort_by_label, limitk, limit_ratio, histogram_quantiles: newer than 2.42
- holt_winters: has another name in 3
- topk, bottomk and sort of equal values: any order is right, so they get `distinct` only
- rate and increase of a subquery: see `_counter` in random_series.py; of a gauge: the same
- stddev, stdvar and deriv where a value may be infinite: NaN and Inf come and go between versions
- calendar functions of NaN: what Go makes of it depends on the processor
- `__name__` in by, on and label functions: a name that is dropped goes at once in 2.42 and at the end in 3
- timestamp() of a selector with both @ and offset: Prometheus forgets the offset there
- @ of a subquery inside a subquery: Prometheus looks for the samples at another time than it says
- atan2 of vectors: 2.42 keeps the metric name
- predict_linear of a range with @: which time it predicts from has changed
- floors, remainders and comparisons of inexact numbers: the last bit of an average decides, and may differ
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st
from random_series import BEGIN_S, SPAN_S

Text = st.SearchStrategy[str]

_DEEPEST = 3
_LABEL_LISTS = ("", "a", "b", "a, b", "c", "a, b, c", "nothing")
_EXACT_NUMBERS = ("0", "1", "2", "-3", "0.5", "1e3", "NaN", "Inf", "-Inf")
_ODD_NUMBERS = ("17.3", "0.37", "-2.7")  # which no sample and no average of samples equals
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
_ELEMENTWISE_EXACT = ("abs", "ceil", "floor", "sgn", "round")
_ELEMENTWISE = (
    *("exp", "ln", "log2", "log10", "sqrt", "deg", "rad", "sin", "cos", "asin", "acos"),
    *("atan", "sinh", "tanh", "asinh", "acosh", "atanh"),
)
_CALENDAR = (
    *("year", "month", "day_of_month", "day_of_year"),
    *("day_of_week", "days_in_month", "hour", "minute"),
)
_RANGE_EXACT = ("max", "min", "count", "last", "present", "sum")
_ARITHMETIC = ("+", "-", "*", "/", "^")  # without %, which is a step


@dataclass(frozen=True)
class Query:
    """An instant query where `step_s` is 0; `ordered` when the order of the series is part of the answer."""

    expr: str
    start_s: int
    end_s: int
    step_s: int
    ordered: bool


@st.composite
def queries(draw: st.DrawFn) -> Query:
    # Seven seconds off, and steps of ten: the points of subqueries stay off the boundaries of ranges too.
    tens = st.integers(-20, SPAN_S // 10 + 40)
    start = BEGIN_S + 10 * draw(tens) + 7
    if draw(st.booleans()):
        step = 10 * draw(st.sampled_from((1, 2, 3, 6, 9, 30)))
        end = start + step * draw(st.integers(0, 50)) + draw(st.sampled_from((0, 3)))
        return Query(draw(st.one_of(vectors(), scalars())), start, end, step, ordered=False)
    kind = draw(st.integers(0, 19))
    if kind == 0:
        sort = draw(st.sampled_from(("sort", "sort_desc")))
        return Query(f"{sort}({draw(_selectors('distinct'))})", start, start, 0, ordered=True)
    if kind == 1:
        return Query(draw(st.one_of(_ranges(), _subqueries(1, fixed=True))), start, start, 0, ordered=False)
    if kind == 2:
        several = draw(st.sampled_from(('{__name__=~"(gauge|info)_N"}', '{__name__=~".+_N", a="x"}')))
        how = draw(st.sampled_from(("{}", "sum by (__name__) ({})", "last_over_time({}[1m])")))
        return Query(how.format(several), start, start, 0, ordered=False)
    return Query(draw(st.one_of(vectors(), scalars())), start, start, 0, ordered=False)


@cache
def vectors(depth: int = _DEEPEST) -> Text:
    """Instant vectors of any numbers."""
    if depth == 0:
        return exact_vectors(0)
    return st.deferred(
        lambda: st.one_of(
            exact_vectors(depth),
            _range_calls(depth),
            _formatted("{}({})", st.sampled_from(_ELEMENTWISE), vectors(depth - 1)),
            _aggregations(("sum", "avg"), vectors(depth - 1)),
            _formatted("quantile by (a) ({}, {})", _quantiles, vectors(depth - 1)),
            _formatted("{}{} ({})", st.sampled_from(("stddev", "stdvar")), _grouping(), _finite()),
            _arithmetic(vectors(depth - 1), _ARITHMETIC),
            _formatted("-{}", vectors(depth - 1)),
            _histogram_quantiles(),
        )
    )


@cache
def exact_vectors(depth: int = _DEEPEST) -> Text:
    """Instant vectors whose numbers both servers compute to the last bit."""
    if depth == 0:
        return _any_selector()
    inner = st.deferred(lambda: exact_vectors(depth - 1))
    return st.one_of(
        _any_selector(),
        _formatted("{}_over_time({})", st.sampled_from(_RANGE_EXACT), _any_range(depth)),
        _formatted("{}({})", st.sampled_from(("changes", "resets", "idelta")), _any_range(depth)),
        _formatted("{}({})", st.sampled_from(_ELEMENTWISE_EXACT), inner),
        _clamps(inner),
        _aggregations(("sum", "min", "max", "count", "group"), inner),
        _formatted('count_values{} ("v", {})', _grouping(), inner),
        _formatted("{}{} (2, {})", st.sampled_from(("topk", "bottomk")), _grouping(), _selectors("distinct")),
        _arithmetic(inner, ("+", "-", "%")),
        _comparisons(inner),
        _formatted("({}) {} {}({})", inner, st.sampled_from(("and", "or", "unless")), _matching(), inner),
        _relabelled(inner),
        _formatted("absent({})", inner),
        _formatted("absent_over_time({})", _any_range(depth)),
        _formatted("timestamp({})", _selectors("gauge", "info", modified=False)),
        _formatted("timestamp({} offset 1m)", _selectors("gauge", "info", modified=False)),
        _formatted("timestamp({} @ end())", _selectors("gauge", "info", modified=False)),
        _formatted("timestamp(-({}))", inner),
        _formatted("vector({})", scalars()),
        _formatted("{}(timestamp(-({})))", st.sampled_from(_CALENDAR), inner),
    )


@cache
def scalars() -> Text:
    return st.one_of(
        st.sampled_from((*_EXACT_NUMBERS, *_ODD_NUMBERS, "time()", "pi()")),
        _formatted("scalar({})", _any_selector()),
        _formatted(
            "{} {} {}",
            st.sampled_from(_ODD_NUMBERS),
            st.sampled_from((*_ARITHMETIC, "%", "atan2")),
            st.sampled_from(_EXACT_NUMBERS),
        ),
        _formatted("{} {} bool {}", _numbers, st.sampled_from(COMPARISONS), _numbers),
    )


_numbers = st.sampled_from((*_EXACT_NUMBERS, *_ODD_NUMBERS))
_quantiles = st.sampled_from(("0", "0.1", "0.5", "0.9", "1", "-1", "2", "NaN"))
# Of few counts, 0.9 can be exactly where a bucket ends: the last bit of a sum then decides which one it is.
_between_edges = st.sampled_from(("0", "0.1037", "0.4981", "0.9113", "1", "-1", "2", "NaN"))


@st.composite
def _formatted(draw: st.DrawFn, pattern: str, *parts: Text) -> str:
    return pattern.format(*(draw(part) for part in parts))


@st.composite
def _selectors(draw: st.DrawFn, *metrics: str, modified: bool = True) -> str:
    matchers = ", ".join(draw(st.one_of(st.just([]), st.lists(_matchers, max_size=2))))
    name = draw(st.sampled_from(metrics))
    return f"{name}_N{{{matchers}}}{draw(_modifiers) if modified else ''}"


_matchers = st.one_of(
    _formatted('a{}"{}"', st.sampled_from(("=", "!=")), st.sampled_from(("x", "y", "w", ""))),
    _formatted('a{}"{}"', st.sampled_from(("=~", "!~")), st.sampled_from(("x|y", "[xy]", ".+", ".*", "w?"))),
    _formatted('c{}"{}"', st.sampled_from(("=", "!=", "=~")), st.sampled_from(("p", "xx", "", "p|"))),
)


@st.composite
def _modifier(draw: st.DrawFn) -> str:
    at = draw(st.sampled_from(("", "", " @ start()", " @ end()", " @ {}")))
    time_s = BEGIN_S + 10 * draw(st.integers(0, SPAN_S // 10)) + 7
    offset = draw(st.sampled_from(("", " offset 10s", " offset 2m", " offset -1m")))
    return at.format(time_s) + offset


_modifiers = st.one_of(st.just(""), st.just(""), _modifier())


@cache
def _any_selector() -> Text:
    return _selectors("gauge", "info", "counter")


@st.composite
def _ranges(draw: st.DrawFn, *metrics: str, modified: bool = True) -> str:
    selector = draw(_selectors(*(metrics or ("gauge", "counter", "info")), modified=False))
    length = draw(st.sampled_from(("30s", "1m", "5m", "17m")))
    return f"{selector}[{length}]{draw(_modifiers) if modified else ''}"


@st.composite
def _subqueries(draw: st.DrawFn, depth: int, *, fixed: bool = False) -> str:
    # Five seconds off, so that inside another subquery too no point lies on the boundary.
    # Longer than any step: 2.42 looks outside of a range that holds no step if its contents are fixed by @.
    length = draw(st.sampled_from(("1m15s", "2m5s", "10m15s")))
    step = draw(st.sampled_from(("10s", "30s", "1m", "")))
    modifier = draw(_modifiers if fixed else st.sampled_from(("", " offset 2m", " offset -1m")))
    return f"({draw(exact_vectors(depth - 1))})[{length}:{step}]{modifier}"


@cache
def _any_range(depth: int) -> Text:
    return st.one_of(_ranges(), _ranges(), st.deferred(lambda: _subqueries(min(depth, 2))))


@cache
def _range_calls(depth: int) -> Text:
    outermost = st.one_of(_ranges(), _subqueries(min(depth, 2), fixed=True))
    return st.one_of(
        _formatted("{}({})", st.sampled_from(("rate", "increase")), _ranges("counter", "seconds_bucket")),
        _formatted("{}({})", st.sampled_from(("delta", "irate", "avg_over_time")), outermost),
        _formatted("quantile_over_time({}, {})", _quantiles, outermost),
        _formatted("{}({})", st.sampled_from(_SMOOTH), _ranges("counter", "distinct")),
        _formatted("predict_linear({}, {})", _ranges("counter", "distinct", modified=False), st.just("60")),
    )


_SMOOTH = ("stddev_over_time", "stdvar_over_time", "deriv")


@cache
def _finite() -> Text:
    return st.one_of(_selectors("counter", "distinct"), _formatted("rate({})", _ranges("counter")))


@cache
def _grouping() -> Text:
    return st.one_of(
        st.just(""),
        _formatted(" {} ({})", st.sampled_from(("by", "without")), st.sampled_from(_LABEL_LISTS)),
    )


@cache
def _aggregations(names: tuple[str, ...], inner: Text) -> Text:
    return st.one_of(
        _formatted("{}{} ({})", st.sampled_from(names), _grouping(), inner),
        _formatted("{} ({}){}", st.sampled_from(names), inner, _grouping()),
    )


@cache
def _matching(*, grouped: bool = False) -> Text:
    """What stands between an operator and its right side."""
    plain = _formatted("{} ({}) ", st.sampled_from(("on", "ignoring")), st.sampled_from(_LABEL_LISTS))
    if not grouped:
        return st.one_of(st.just(""), plain)
    group = _formatted("{}({}) ", st.sampled_from(("group_left", "group_right")), st.sampled_from(("", "c")))
    return st.one_of(st.just(""), plain, _formatted("{}{}", plain, group))


@cache
def _arithmetic(inner: Text, operators: tuple[str, ...]) -> Text:
    op = st.sampled_from(operators)
    return st.one_of(
        _formatted("({}) {} {}({})", inner, op, _matching(grouped=True), inner),
        _formatted("{} {} {}({})", inner, op, _matching(grouped=True), inner),  # precedence decides
        _formatted("{} {} {}", inner, op, _numbers),
        _formatted("{} {} {}", _numbers, op, inner),
        _formatted("counter_N {} on (a) group_left (c) ({})", op, _selectors("info")),
    )


@cache
def _comparisons(inner: Text) -> Text:
    op = st.sampled_from(COMPARISONS)
    of_bool = st.sampled_from(("", "bool "))
    return st.one_of(
        _formatted("({}) {} {}{}({})", inner, op, of_bool, _matching(grouped=True), inner),
        _formatted("({}) {} {}{}", inner, op, of_bool, _numbers),
        _formatted("{} {} {}({})", _numbers, op, of_bool, inner),
    )


@cache
def _clamps(inner: Text) -> Text:
    return st.one_of(
        _formatted("clamp({}, {}, {})", inner, _numbers, _numbers),
        _formatted("clamp_min({}, {})", inner, _numbers),
        _formatted("clamp_max({}, {})", inner, _numbers),
    )


@cache
def _relabelled(inner: Text) -> Text:
    return st.one_of(
        _formatted(
            'label_replace({}, "{}", "{}", "{}", "{}")',
            inner,
            st.sampled_from(("a", "d", "b")),
            st.sampled_from(("$1", "new", "", "$1-${1}", "$2")),
            st.sampled_from(("a", "c", "nothing")),
            st.sampled_from(("(.*)", "(x|y)", "x()", "")),
        ),
        _formatted(
            'label_join({}, "{}", "{}", {})',
            inner,
            st.sampled_from(("a", "d")),
            st.sampled_from(("", "-")),
            st.sampled_from(('"a"', '"a", "b"', '"nothing", "c"')),
        ),
    )


@cache
def _histogram_quantiles() -> Text:
    buckets = st.one_of(
        _selectors("seconds_bucket"),
        _formatted("rate({})", _ranges("seconds_bucket")),
        _formatted("sum by (le) (rate({}))", _ranges("seconds_bucket")),
    )
    return _formatted("histogram_quantile({}, {})", _between_edges, buckets)
