"""Answers of the engine where the scripts say little: shapes, order, missing values, limits, pushdown."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import (
    PromQLEvalError,
    PromQLUnsupported,
    QueryCancelled,
    QueryTimeout,
    QueryTooLarge,
    RequestError,
)
from trilens.model.labels import LabelFrame
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, Gridded, GridRequest, Selected, SelectRequest
from trilens.promql.engine import MAX_STEPS, Engine
from trilens.promql.memory import MemorySource

if TYPE_CHECKING:
    from trilens.promql.result import QueryResult

MINUTE = 60_000


@pytest.fixture
def source() -> MemorySource:
    """Two jobs with gaps, a NaN, a staleness marker, and buckets."""
    source = MemorySource()

    def add(name: str, labels: dict[str, str], values: list[float | None]) -> None:
        samples = [(i * MINUTE, v) for i, v in enumerate(values) if v is not None]
        source.add({"__name__": name, **labels}, samples)

    add("m", {"job": "a", "i": "1"}, [1, 2, None, 4, 5, 6])
    add("m", {"job": "a", "i": "2"}, [10, math.nan, 30, STALE_NAN, 50, 60])
    add("m", {"job": "b", "i": "1"}, [None, None, -3, 3, math.inf, 3])
    add("m", {"job": "b", "i": "10"}, [7, 7, 7, 7, 7, 7])
    add("n", {"job": "a"}, [2, 2, 2, None, 2, 2])
    add("n", {"job": "b"}, [None, 4, 4, 4, 4, 4])
    for le, step in (("0.1", 1.0), ("1", 2.0), ("+Inf", 3.0)):
        add("h_bucket", {"job": "a", "le": le}, [step * i for i in range(6)])
    return source


def instant(source: MemorySource, query: str, minute: float = 5) -> QueryResult:
    return Engine(source, lookback_ms=MINUTE).instant(query, int(minute * MINUTE), QueryGuard())


def over(source: MemorySource, query: str, end: int = 5) -> QueryResult:
    return Engine(source, lookback_ms=MINUTE).range(query, 0, end * MINUTE, MINUTE, QueryGuard())


def written(result: QueryResult) -> list[tuple[dict[str, str], list[float | None]]]:
    present = np.ones(result.values.shape, bool) if result.present is None else result.present
    return [
        (
            result.labels.labels(i),
            [float(v) if p else None for v, p in zip(result.values[i], present[i], strict=True)],
        )
        for i in range(len(result.labels))
    ]


QUERIES = [
    "m",
    "-m",
    "m * 2 > 5",
    "m > bool 5",
    "2 - m",
    "sum(m)",
    "sum by (job) (m)",
    "avg without (i) (m)",
    "min by (job) (m)",
    "max(m)",
    "count by (i) (m)",
    "group(m)",
    "stddev(m)",
    "stdvar by (job) (m)",
    "quantile(0.7, m)",
    "quantile by (job) (0.5, m)",
    "count_values('v', m)",
    "count_values without (i) ('v', m)",
    "topk(2, m)",
    "bottomk by (job) (1, m)",
    "limitk(2, m)",
    "limit_ratio(0.5, m)",
    "limit_ratio(-0.5, m)",
    "m / on (job) group_left n",
    "n * on (job) group_right m",
    "m == on (job) group_left n",
    "m - ignoring (i) group_left fill (1) n",
    "n + on (job) fill_left (5) sum by (job) (m)",
    "n != bool on (job) max by (job) (m)",
    "m and on (job) n",
    "m unless on (job) (n > 3)",
    "m or on (job) n",
    "n or m",
    "abs(m)",
    "round(m, 5)",
    "clamp(m, 2, 6)",
    "timestamp(m)",
    "hour(m * 1e4)",
    "absent(m{job='a', i='2'})",
    "absent(none{x='y'})",
    "scalar(n{job='a'})",
    "vector(time())",
    "label_replace(m, 'i', 'x$1', 'i', '(.)')",
    "label_join(m, 'both', '-', 'job', 'i')",
    "histogram_quantile(0.9, h_bucket)",
    "histogram_quantiles(h_bucket, 'q', 0.5, 0.99)",
    "histogram_fraction(0, 0.5, h_bucket)",
    "rate(m[3m])",
    "predict_linear(m[4m], 60)",
    "double_exponential_smoothing(m[4m], 0.5, 0.4)",
    "mad_over_time(m[3m])",
    "ts_of_max_over_time(m[3m])",
    "quantile_over_time(scalar(n{job='a'}) / 4, m[3m])",
    "absent_over_time(m{job='a'}[1m])",
    "sum_over_time((m > 2)[3m:1m])",
    "max_over_time(sum by (job) (m)[2m:30s] offset 1m)",
    "m @ 120",
    "sum(m @ 120 offset 1m) + sum(n)",
    "predict_linear(m[3m] @ 240, 60)",
    "m offset 1m",
    "m offset -1m",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_range_query_is_its_instant_queries_side_by_side(source: MemorySource, query: str) -> None:
    whole = written(over(source, query))
    keys = [tuple(labels.items()) for labels, _ in whole]
    assert len(set(keys)) == len(keys)
    for minute in range(6):
        single = {tuple(labels.items()): v[0] for labels, v in written(instant(source, query, minute))}
        column = {key: v[minute] for key, (_, v) in zip(keys, whole, strict=True) if v[minute] is not None}
        assert column.keys() == single.keys()
        for key, value in single.items():
            assert column[key] == pytest.approx(value, nan_ok=True), (minute, key)


def test_missing_is_not_nan(source: MemorySource) -> None:
    assert written(over(source, "m{job='a', i='2'}")) == [
        (
            {"__name__": "m", "i": "2", "job": "a"},
            [10, pytest.approx(math.nan, nan_ok=True), 30, None, 50, 60],
        )
    ]
    assert written(over(source, "count(m{job='a', i='2'})"))[0][1] == [1, 1, 1, None, 1, 1]
    assert written(over(source, "m{job='b', i='1'} == 99")) == []


def test_staleness_markers_never_reach_a_result(source: MemorySource) -> None:
    raw = instant(source, "m{job='a', i='2'}[10m]")
    assert raw.kind == "matrix"
    assert raw.samples is not None
    assert (raw.samples.t // MINUTE).tolist() == [0, 1, 2, 4, 5]
    assert written(instant(source, "count_over_time(m{i='2'}[10m])"))[0][1] == [5]


def test_a_matrix_is_sorted_as_prometheus_sorts_labels(source: MemorySource) -> None:
    source.add({"__name__": "m"}, [(0, 1)])
    source.add({"__name__": "m", "a": "z"}, [(0, 1)])
    source.add({"__name__": "m", "i": "1"}, [(0, 1)])
    labels = [labels for labels, _ in written(over(source, "{__name__=~'m|n'}", 0))]
    pairs = [sorted(x.items()) for x in labels]
    assert pairs == sorted(pairs)
    assert labels[0] == {"__name__": "m"}


def test_sorted_vectors_keep_their_order(source: MemorySource) -> None:
    values = [v[0] for _, v in written(instant(source, "sort_desc(m)"))]
    assert values == [60, 7, 6, 3]
    order = [labels["i"] for labels, _ in written(instant(source, "sort_by_label(m, 'i')"))]
    assert order == ["1", "1", "2", "10"]


def test_kinds_of_results(source: MemorySource) -> None:
    assert instant(source, "1 + 1").kind == "scalar"
    assert instant(source, "1 + 1").values.tolist() == [[2]]
    assert instant(source, "'text'").text == "text"
    assert instant(source, "m[1m]").kind == "matrix"
    assert over(source, "1 + 1").kind == "matrix"
    assert over(source, "1 + 1").values.tolist() == [[2] * 6]
    for query in ("m[1m]", "'text'"):
        with pytest.raises(RequestError, match="range query"):
            over(source, query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("m + on (job) m", "many-to-many matching not allowed"),
        ("m + on (job) n", "many-to-one matching must be explicit"),
        ("label_replace(m, 'i', '', 'i', '.*')", "same labelset"),
        ("label_replace(m, 'i', '', 'i', '(')", "invalid regular expression"),
        ("double_exponential_smoothing(m[5m], 2, 0.5)", "invalid smoothing factor"),
        ("topk(1e30, m)", "overflows"),
    ],
)
def test_errors_of_evaluation(source: MemorySource, query: str, message: str) -> None:
    with pytest.raises(PromQLEvalError, match=message):
        instant(source, query)


def test_a_comparison_that_keeps_nothing_may_still_be_ambiguous(source: MemorySource) -> None:
    with pytest.raises(PromQLEvalError, match="many-to-one"):
        instant(source, "m > on (job) (n + 1e9)")


@pytest.mark.parametrize("function", ["info", "start_timestamp"])
def test_unsupported_functions_say_so(source: MemorySource, function: str) -> None:
    with pytest.raises(PromQLUnsupported, match=rf"{function}\(\)"):
        instant(source, f"{function}(m)")


def test_warnings_travel_with_the_answer(source: MemorySource) -> None:
    result = instant(source, "quantile(2, m)")
    assert result.warnings == ("PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)",)
    info = instant(source, "sum(rate(m[5m]))").infos
    assert info == (
        "PromQL info: metric might not be a counter, name does not end in "
        '_total/_sum/_count/_bucket: "m" (1:10)',
    )


def test_equal_series_have_no_deviation() -> None:
    source = MemorySource()
    for i in range(3):
        source.add({"__name__": "m", "i": str(i)}, [(t * 1000, 1.5990505637277868) for t in range(9)])
    for query in ("stddev(m)", "stddev_over_time(m[9s])", "stdvar(m)"):
        assert {v[0] for _, v in written(instant(source, query, 8 / 60))} == {0}


def test_cancelling_terms_keep_their_digits() -> None:
    source = MemorySource()
    source.add({"__name__": "m", "i": "0"}, [(t * 1000, v) for t, v in enumerate([1.0, 1e100, 1.0, -1e100])])
    assert written(instant(source, "sum_over_time(m[4s])", 3 / 60))[0][1] == [2]
    for i, value in enumerate([2.0, 1e100, 8.0, -1e100]):
        source.add({"__name__": "s", "i": str(i)}, [(0, value)])
    assert written(instant(source, "sum(s)", 0))[0][1] == [10]
    assert written(instant(source, "avg(s)", 0))[0][1] == [2.5]


@pytest.mark.parametrize("window", [10, 20, 77, 240, 1000])
def test_the_mean_of_equal_samples_is_that_sample(window: int) -> None:
    """0.1 has no exact form: a plain sum of many drifts away from their multiple."""
    source = MemorySource()
    source.add({"__name__": "m"}, [(t * 1000, 0.1) for t in range(1500)])
    result = Engine(source).range(
        f"avg_over_time(m[{window}s]) == 0.1", 1_000_000, 1_499_000, 1000, QueryGuard()
    )
    assert result.values.shape == (1, 500)
    assert result.present is None


def test_bytes_that_are_no_text_never_reach_an_answer(source: MemorySource) -> None:
    assert instant(source, r'"a\xffb"').text == "a\ufffdb"
    replaced = written(instant(source, r'label_replace(n, "job", "\xff$1", "job", "(.*)")'))
    assert [labels["job"] for labels, _ in replaced] == ["\ufffda", "\ufffdb"]
    for query in (
        r'label_join(n, "\xff", "-")',
        r'count_values("\xff", n)',
        'label_replace(n, "", "", "", "")',
    ):
        with pytest.raises(PromQLEvalError, match="invalid"):
            instant(source, query)


def test_count_values_may_overwrite_a_label_it_groups_by(source: MemorySource) -> None:
    got = written(instant(source, "count_values by (job, i) ('job', m > bool 5)"))
    assert sorted((labels["job"], labels["i"], v[0]) for labels, v in got) == [
        ("0", "1", 1),
        ("1", "1", 1),
        ("1", "10", 1),
        ("1", "2", 1),
    ]


def test_count_values_writes_values_without_an_exponent(source: MemorySource) -> None:
    got = written(instant(source, "count_values('v', vector(1e-7) or vector(1e21))"))
    assert [labels["v"] for labels, _ in got] == ["0.0000001"]


def test_an_infinite_bound_clamps_even_what_is_no_number(source: MemorySource) -> None:
    assert written(instant(source, "clamp_min(vector(NaN), Inf)"))[0][1] == [np.inf]
    assert written(instant(source, "clamp(vector(-Inf), 0.5, NaN)"))[0][1] == [0.5]
    assert np.isnan(written(instant(source, "clamp(vector(NaN), 0, 1)"))[0][1]).all()


def test_absence_is_labelled_by_the_last_word_on_a_label(source: MemorySource) -> None:
    assert written(instant(source, "absent(none{job!='a', job='a'})"))[0][0] == {"job": "a"}
    assert written(instant(source, "absent(none{job='a', job!='b', i='1'})"))[0][0] == {"i": "1"}
    assert written(instant(source, "absent(none{job='a', job='a'})"))[0][0] == {}


@pytest.mark.parametrize("function", ["sum_over_time", "absent_over_time", "rate"])
def test_a_subquery_between_two_steps_evaluates_nothing(source: MemorySource, function: str) -> None:
    """45 s before 1:50 hold no whole minute: the pairs of that minute are ambiguous, but nobody asks."""
    ambiguous = f"{function}((n + on (job) m)[45s:1m])"
    expected = [1] if function == "absent_over_time" else []
    at = 110 / 60
    assert [v[0] for _, v in written(instant(source, ambiguous, at))] == expected
    with pytest.raises(PromQLEvalError, match="many-to-many"):
        instant(source, f"{function}((n + on (job) m)[75s:1m])", at)
    assert len(instant(source, "m[45s:1m]", at).labels) == 0


def test_long_and_deep_expressions_are_evaluated(source: MemorySource) -> None:
    assert instant(source, "+".join(["1"] * 1001)).values.tolist() == [[1001]]
    assert written(over(source, "abs(" * 99 + "sum(n)" + ")" * 99))[0][1] == [2, 6, 6, 4, 6, 6]


def test_nothing_is_ambiguous_at_a_step_without_a_pair(source: MemorySource) -> None:
    """Two series of m share a job, but there is nothing on the left to pair with either."""
    assert written(instant(source, "none + on (job) m")) == []
    with pytest.raises(PromQLEvalError, match="many-to-many"):
        instant(source, "n + on (job) m")
    with pytest.raises(PromQLEvalError, match="many-to-many"):
        instant(source, "none + on (job) fill (0) m")


def test_an_empty_vector_takes_new_labels(source: MemorySource) -> None:
    empty = "m{job='none'} or m < -1e9"
    for query in (
        f"label_replace({empty}, 'a', 'x', 'job', '.*')",
        f"sum by (job) (label_join({empty}, 'a', ''))",
    ):
        assert written(over(source, query)) == []


def test_too_many_samples_are_refused_before_they_are_made(source: MemorySource) -> None:
    engine = Engine(source)
    with pytest.raises(QueryTooLarge, match="more than 100 samples"):
        engine.range("m", 0, 5 * MINUTE, 1000, QueryGuard(max_samples=100))
    with pytest.raises(QueryTooLarge, match="selects 4 series"):
        engine.instant("m", 5 * MINUTE, QueryGuard(max_series=3))
    with pytest.raises(QueryTooLarge):
        engine.instant("max_over_time(m[100y:1s])", 5 * MINUTE, QueryGuard())
    with pytest.raises(QueryTooLarge):
        engine.instant("max_over_time(none[100y:1s])", 5 * MINUTE, QueryGuard())
    with pytest.raises(QueryTooLarge, match="points of each series"):
        engine.range("m", 0, (MAX_STEPS + 1) * 1000, 1000, QueryGuard())
    with pytest.raises(QueryTooLarge):
        engine.range("count_values('v', time() + m)", 0, 5 * MINUTE, 1000, QueryGuard(max_samples=10_000))


@pytest.mark.parametrize(("start", "end", "step"), [(0, 10, 0), (0, 10, -1), (10, 0, 1)])
def test_a_range_that_makes_no_sense(source: MemorySource, start: int, end: int, step: int) -> None:
    with pytest.raises(RequestError):
        Engine(source).range("m", start, end, step, QueryGuard())


def test_a_query_out_of_time_stops(source: MemorySource) -> None:
    with pytest.raises(QueryTimeout):
        Engine(source).instant("m", 0, QueryGuard(timeout_s=-1))


class _Blocking(MemorySource):
    """Waits in `select` until it is told to go on, as a slow store would."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = threading.Event()
        self.go_on = threading.Event()

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        with guard.stopping(self.go_on.set):
            self.reading.set()
            assert self.go_on.wait(10)
        return super().select(request, guard)


def test_a_query_can_be_cancelled_from_another_thread() -> None:
    source, guard = _Blocking(), QueryGuard()
    outcome: list[BaseException] = []

    def ask() -> None:
        try:
            Engine(source).instant("sum(m)", 0, guard)
        except QueryCancelled as e:
            outcome.append(e)

    asking = threading.Thread(target=ask)
    asking.start()
    assert source.reading.wait(10)
    guard.cancel()
    asking.join(10)
    assert len(outcome) == 1


class _Gridding(MemorySource):
    """Answers one kind of leaf itself."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[GridRequest] = []
        self.selected = 0

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        self.selected += 1
        return super().select(request, guard)

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | None:
        self.asked.append(request)
        if request.function not in ("rate", "instant"):
            return None
        steps = (request.end_ms - request.start_ms) // request.step_ms + 1
        labels = LabelFrame.of(self.symbols, [{"__name__": "m_total", "i": "1"}])
        return Gridded(labels, np.full((1, steps), 42.0), None, warnings=("from the source",))


def test_leaves_are_computed_at_the_source_where_it_can() -> None:
    source = _Gridding()
    result = Engine(source).range("rate(m_total[5m] offset 1m)", 0, 2 * MINUTE, MINUTE, QueryGuard())
    assert written(result) == [({"i": "1"}, [42, 42, 42])]
    assert result.warnings == ("from the source",)
    asked = source.asked[0]
    assert (asked.function, asked.start_ms, asked.end_ms, asked.step_ms, asked.range_ms) == (
        "rate",
        -MINUTE,
        MINUTE,
        MINUTE,
        5 * MINUTE,
    )
    assert source.selected == 0


def test_a_leaf_that_the_source_declines_is_computed_from_samples() -> None:
    source = _Gridding()
    source.add({"__name__": "m_total"}, [(0, 1), (MINUTE, 5)])
    result = Engine(source).instant("max_over_time(m_total[5m])", MINUTE, QueryGuard())
    assert written(result) == [({}, [5])]
    assert source.selected == 1


def test_a_selector_that_is_repeated_is_read_once() -> None:
    source = _Gridding()
    source.add({"__name__": "m_total"}, [(0, 1), (MINUTE, 5)])
    Engine(source).instant("max_over_time(m_total[5m]) - min_over_time(m_total[5m])", MINUTE, QueryGuard())
    assert source.selected == 1


def test_what_at_fixes_is_evaluated_once() -> None:
    source = _Gridding()
    source.add({"__name__": "m_total"}, [(0, 1), (MINUTE, 5)])
    query = "sum(max_over_time(m_total[5m] @ end()))"
    result = Engine(source).range(query, 0, MINUTE, 1000, QueryGuard())
    assert written(result) == [({}, [5.0] * 61)]
    asked = source.asked[0]
    assert (asked.start_ms, asked.end_ms) == (MINUTE, MINUTE)


def test_label_values_made_by_a_query_stay_with_it(source: MemorySource) -> None:
    instant(source, "n")
    before = len(source.symbols)
    result = instant(source, "label_replace(n, 'new', 'never-seen-$1', 'job', '(.*)')")
    assert {labels["new"] for labels, _ in written(result)} == {"never-seen-a", "never-seen-b"}
    assert len(source.symbols) == before
