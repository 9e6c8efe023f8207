"""Selection by matchers against a plain loop over all series."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.model.errors import PromQLEvalError
from trilens.model.labels import METRIC_NAME, LabelFrame, Labels, make_labels
from trilens.model.matcher import Matcher
from trilens.store import index as index_module
from trilens.store.index import SeriesIndex
from trilens.store.index_state import by_shape

names = st.sampled_from(["gpu", "node", "job"])
values = st.sampled_from(["", "a", "b", "ab", "a\nb", "x.y"])
series = st.dictionaries(names, values, max_size=3).flatmap(
    lambda d: st.sampled_from(["up", "power", ""]).map(lambda m: make_labels({**d, METRIC_NAME: m}))
)
matchers = st.lists(
    st.builds(
        Matcher,
        name=st.sampled_from(["gpu", "node", "job", METRIC_NAME, "missing"]),
        op=st.sampled_from(["=", "!=", "=~", "!~"]),
        value=st.sampled_from(["", "a", "b", "ab", ".*", ".+", "a|up", "u.", "a.b", "x\\.y", "nothing"]),
    ),
    max_size=3,
)


def add(index: SeriesIndex, labels: Labels) -> int:
    key, ref = index.find(labels)
    if ref is None:
        ref = int(index.references.take(1)[0])
        index.add(ref, key, labels)
    return ref


def plainly_matches(labels: Labels, matcher: Matcher) -> bool:
    value = dict(labels).get(matcher.name, "")
    if matcher.op in ("=", "!="):
        hit = value == matcher.value
    else:
        hit = re.fullmatch(matcher.value, value, re.DOTALL) is not None
    return hit if matcher.op in ("=", "=~") else not hit


@settings(max_examples=300, deadline=None)
@given(st.lists(series, max_size=12, unique=True), st.lists(matchers, min_size=1, max_size=3))
def test_selects_what_a_plain_loop_selects(all_series: list[Labels], queries: list[list[Matcher]]) -> None:
    index = SeriesIndex()
    for labels in all_series:
        add(index, labels)
    for query in queries:
        found = index.state.select(query)
        got = sorted(make_labels(found.labels.labels(i)) for i in range(len(found)))
        assert got == sorted(s for s in all_series if all(plainly_matches(s, m) for m in query))
        assert [index.labels(ref) for ref in found.refs.tolist()] == [
            make_labels(found.labels.labels(i)) for i in range(len(found))
        ]


def test_adding_twice_gives_the_same_reference() -> None:
    index = SeriesIndex()
    jobs = ("a", "b", "a")
    assert [add(index, make_labels({METRIC_NAME: "up", "job": job})) for job in jobs] == [0, 1, 0]


def test_series_with_one_hash_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "series_id", lambda labels, salt=0: 7 + salt)
    index = SeriesIndex()
    refs = [add(index, make_labels({METRIC_NAME: "up", "job": job})) for job in ("a", "b", "c", "b")]
    assert refs == [0, 1, 2, 1]
    assert index.ids.tolist() == [7, 8, 9]


def test_a_bad_regular_expression_says_so() -> None:
    with pytest.raises(PromQLEvalError, match=r"bad regular expression '\*'"):
        SeriesIndex().state.select([Matcher("job", "=~", "*")])


def test_a_regex_memo_learns_of_new_values() -> None:
    index = SeriesIndex()
    query = [Matcher("job", "=~", "a.*")]
    for n in range(2000):
        add(index, make_labels({METRIC_NAME: "up", "job": f"a{n}" if n % 2 else f"b{n}"}))
        if n % 500 == 0:
            index.state.select(query)
    assert len(index.state.select(query)) == 1000


@settings(max_examples=200, deadline=None)
@given(st.lists(series, max_size=12, unique=True), st.lists(series, max_size=12, unique=True))
def test_series_found_together_are_those_found_one_by_one(here: list[Labels], asked: list[Labels]) -> None:
    index = SeriesIndex()
    for labels in here:
        add(index, labels)
    frame = LabelFrame.of(index.state.symbols, asked)
    for rows, metric, label_names, codes in by_shape(frame):
        found = index.find_block(metric, label_names, codes)
        assert found is not None
        ids, refs = found
        for row, key, ref in zip(rows.tolist(), ids.tolist(), refs.tolist(), strict=True):
            assert (key, None if ref < 0 else ref) == index.find(asked[row])


def test_series_with_one_hash_are_not_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "series_id", lambda labels, salt=0: 7 + salt)
    monkeypatch.setattr(index_module, "_hashed", lambda text, salt=0: 7 + salt)
    index = SeriesIndex()
    add(index, make_labels({METRIC_NAME: "up", "job": "a"}))
    intern = index.state.symbols.intern
    assert index.find_block("up", ("job",), np.array([[intern("b")]], np.int32)) is None
    assert index.find_block("up", ("job",), np.array([[intern("a")], [intern("b")]], np.int32)) is None


@given(st.lists(series, min_size=1, max_size=12, unique=True))
def test_labels_written_out_together_are_those_of_each_series(all_series: list[Labels]) -> None:
    index = SeriesIndex()
    refs = np.array([add(index, labels) for labels in all_series], np.int32)
    found = index.written_out(refs)
    pairs = iter(
        [
            (found.names.texts[n], found.values.texts[v])
            for n, v in zip(found.names.places, found.values.places, strict=True)
        ]
    )
    for row, metric, count in zip(found.rows, found.metrics.places, found.label_counts, strict=True):
        labels = {METRIC_NAME: found.metrics.texts[metric], **dict(next(pairs) for _ in range(count))}
        assert make_labels(labels) == all_series[row]
    assert next(pairs, None) is None
    assert sorted(found.rows.tolist()) == list(range(len(all_series)))
