"""Functions computed from summaries of windows against the same functions on the samples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, Gridded, GridRequest, SelectRequest, Summaries, stale_mask
from trilens.promql import summaries
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource

WIDTH = 300_000
BEGIN = 1_700_000_100_000 // WIDTH * WIDTH


class SummarisingSource(MemorySource):
    """Summarises sample by sample, in plain loops."""

    used = 0

    def grid(self, request: GridRequest, guard: QueryGuard) -> Gridded | Summaries | None:
        if not request.summary:
            return None
        type(self).used += 1
        begin = request.start_ms - request.range_ms
        found = self.select(SelectRequest(request.matchers, begin, request.end_ms), guard)
        windows = (request.end_ms - begin) // WIDTH
        columns = {name: np.zeros((len(found.labels), windows)) for name in request.summary}
        for i in range(len(found.labels)):
            own = slice(found.samples.offsets[i], found.samples.offsets[i + 1])
            for j in range(windows):
                inside = [
                    (t, v)
                    for t, v in zip(found.samples.t[own].tolist(), found.samples.v[own], strict=True)
                    if begin + j * WIDTH < t <= begin + (j + 1) * WIDTH
                ]
                for name, value in summarise(inside).items():
                    if name in columns:
                        columns[name][i, j] = value
        return Summaries(found.labels, WIDTH, begin + WIDTH, columns)


def summarise(samples: list[tuple[int, float]]) -> dict[str, float]:
    live = [(t, v) for t, v in samples if not stale_mask(np.array([v]))[0]]
    ended = float(bool(samples) and samples[-1] != (live or [None])[-1])
    if not live:
        return {"count": 0, "ended": ended}
    values = [v for _, v in live]
    return {
        "count": len(live),
        "ended": ended,
        "min": min(values),
        "max": max(values),
        "sum": sum(values),
        "first_t": live[0][0],
        "first": values[0],
        "last_t": live[-1][0],
        "last": values[-1],
        "reset_sum": sum(a for a, b in itertools.pairwise(values) if b < a),
    }


samples = st.lists(
    st.tuples(
        st.integers(1_000, 400_000),
        st.one_of(st.integers(0, 50).map(float), st.floats(-1e6, 1e6), st.just(STALE_NAN)),
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(
    series=st.lists(samples, min_size=1, max_size=3),
    windows=st.integers(1, 4),
    stride=st.integers(1, 3),
    steps=st.integers(1, 6),
)
def test_summaries_give_what_samples_give(series, windows, stride, steps) -> None:
    plain, summarised = MemorySource(), SummarisingSource()
    for number, gaps in enumerate(series):
        t = BEGIN
        held = []
        for gap, value in gaps:
            t += gap
            held.append((t, value))
        for source in (plain, summarised):
            source.add({"__name__": "m", "n": str(number)}, held)
    start = BEGIN + WIDTH * 2
    end = start + (steps - 1) * stride * WIDTH
    for function in summaries.COLUMNS:
        _check_agreement(plain, summarised, function, windows, (start, end, stride * WIDTH))


def _check_agreement(
    plain: MemorySource,
    summarised: SummarisingSource,
    function: str,
    windows: int,
    times: tuple[int, int, int],
) -> None:
    expr = "m" if function == "instant" else f"{function}(m[{windows * WIDTH}ms])"
    answers = []
    SummarisingSource.used = 0
    for source in (plain, summarised):
        engine = Engine(source, lookback_ms=windows * WIDTH)
        result = engine.range(expr, *times, QueryGuard())
        answers.append(
            {
                tuple(result.labels.labels(i).items()): [
                    (k, v)
                    for k, v in enumerate(result.values[i].tolist())
                    if result.present is None or result.present[i, k]
                ]
                for i in range(len(result.labels))
            }
        )
    assert SummarisingSource.used == 1
    raw, short = answers
    assert short.keys() == raw.keys(), function
    for labels, values in raw.items():
        assert [k for k, _ in short[labels]] == [k for k, _ in values], function
        assert [v for _, v in short[labels]] == pytest.approx([v for _, v in values], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 7, 8])
@pytest.mark.parametrize("function", summaries.COLUMNS)
def test_series_are_computed_some_at_a_time(
    function: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven series in blocks of all kinds of sizes: none is lost, doubled or mixed up."""
    windows, steps = 3, 4
    plain, summarised = MemorySource(), SummarisingSource()
    for number in range(7):
        held = [
            (BEGIN + 70_000 * i + 1000 * number, float(10 ** (number % 4) * (1 + i % 5) + number))
            for i in range(2, 26)
            if (i + number) % 6  # gaps, and windows that are empty
        ]
        for source in (plain, summarised):
            source.add({"__name__": "m", "n": str(number)}, held)
    blocks = []
    monkeypatch.setattr(summaries, "_CELLS", rows * steps * windows)
    compute = summaries._FUNCTIONS[function]
    monkeypatch.setitem(
        summaries._FUNCTIONS, function, lambda spans: blocks.append(len(spans.filled)) or compute(spans)
    )
    start = BEGIN + WIDTH * windows
    _check_agreement(plain, summarised, function, windows, (start, start + (steps - 1) * WIDTH, WIDTH))
    assert blocks == {1: [1] * 7, 2: [2, 2, 2, 1], 3: [3, 3, 1], 6: [6, 1]}.get(rows, [7])
