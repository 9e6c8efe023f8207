from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as client_openmetrics
from prometheus_client.parser import text_string_to_metric_families as client_text

from servers import require_corpus
from trilens.collect.exposition import DROPPED, ExpositionParser, check_openmetrics, parse_samples
from trilens.collect.exposition.numbers import openmetrics_float
from trilens.model.errors import ExpositionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trilens.collect.exposition.grammar import LabelPairs

# Rules about numbers and neighbours that only the strict check enforces; docs/scraping.md says why.
STRICT_ONLY = (
    "bad_clashing_names_2",
    "bad_counter_values_",
    "bad_exemplars_on_unallowed_samples_2",
    "bad_grouping_or_ordering_",
    "bad_histograms_",
    "bad_info_and_stateset_values_",
    "bad_metadata_in_wrong_place_",
    "bad_missing_or_invalid_labels_for_a_type_",
    "bad_stateset_info_values_",
)


def corpus_cases() -> Iterable[tuple[str, bytes, bool]]:
    for folder in sorted(require_corpus("openmetrics").iterdir()):
        should_parse = json.loads((folder / "test.json").read_text())["shouldParse"]
        yield folder.name, (folder / "metrics").read_bytes(), should_parse


def accepted(body: bytes, *, strict: bool) -> bool:
    try:
        if strict:
            check_openmetrics(body)
        parse_samples(body, openmetrics=True)
    except ExpositionError:
        return False
    return True


def test_openmetrics_corpus_decides_what_parses() -> None:
    cases = list(corpus_cases())
    assert len(cases) == 211
    wrong = [name for name, body, good in cases if accepted(body, strict=True) != good]
    assert wrong == []


def test_scrapes_enforce_all_but_the_listed_rules() -> None:
    wrong = [name for name, body, good in corpus_cases() if accepted(body, strict=False) != good]
    assert [name for name in wrong if not name.startswith(STRICT_ONLY)] == []
    assert len(wrong) == 62  # the other 149 cases hold in every scrape


def sample_key(labels: Iterable[tuple[str, str]], t_ms: int | None) -> tuple[object, ...]:
    """`le` and `quantile` as numbers: one parser keeps the spelling, the other normalises it."""
    plain = [(n, float(v) if n in ("le", "quantile") else v) for n, v in labels if v]
    return (*sorted(plain, key=lambda pair: pair[0]), t_ms)


@pytest.mark.parametrize("folder", ["textparse", "dcgm"])
def test_samples_agree_with_the_reference_client(folder: str) -> None:
    files = [f for f in sorted(require_corpus(folder).iterdir()) if f.suffix in (".txt", ".prom")]
    compared = 0
    for file in files:
        openmetrics = ".om." in file.name
        try:
            theirs = reference_samples(file, openmetrics=openmetrics)
        except ValueError:
            # An excerpt with dots in it, or a text that breaks a rule about numbers.
            assert openmetrics or "..." in file.read_text(), file.name
            continue
        ours, _ = parse_samples(file.read_bytes(), openmetrics=openmetrics)
        compared += 1
        mine = {sample_key(s.labels, s.t_ms): s.value for s in ours}
        assert mine.keys() == theirs.keys(), file.name
        for key, value in mine.items():
            assert value == theirs[key] or (math.isnan(value) and math.isnan(theirs[key])), (file.name, key)
    assert compared


def reference_samples(file: Path, *, openmetrics: bool) -> dict[tuple[object, ...], float]:
    text = file.read_text()
    samples = {}
    for family in (client_openmetrics if openmetrics else client_text)(text):
        for s in family.samples:
            # The client gives every counter a _total, which the text may not have.
            name = s.name if f"\n{s.name}" in f"\n{text}" else s.name.removesuffix("_total")
            t_ms = None if s.timestamp is None else int(s.timestamp * 1000)
            samples[sample_key([("__name__", name), *s.labels.items()], t_ms)] = float(s.value)
    return samples


@pytest.mark.parametrize(
    ("line", "labels", "value", "t_ms"),
    [
        ("a 1", {}, 1, None),
        ("a{} 1", {}, 1, None),
        ('a{x="1"y="2"} -Infinity', {"x": "1", "y": "2"}, -math.inf, None),
        ('a { x = "1" , y="2", } 1e3  1700000000000 ', {"x": "1", "y": "2"}, 1000, 1700000000000),
        ("a\t5 -7", {}, 5, -7),
        (r'a{x="q\"b\\s\nn\z"} +Inf', {"x": 'q"b\\s\nn\\z'}, math.inf, None),
        ('a{x="1"}3', {"x": "1"}, 3, None),
        ('a{x="} # {"} 3', {"x": "} # {"}, 3, None),
        ('{"my.metric",x="1"} 3', {"__name__": "my.metric", "x": "1"}, 3, None),
        ('{"a","my.label"="1"} -Inf', {"my.label": "1"}, -math.inf, None),
        ('a{x="🚀 é"} .5', {"x": "🚀 é"}, 0.5, None),
    ],
)
def test_text_lines(line: str, labels: dict[str, str], value: float, t_ms: int | None) -> None:
    (sample,), _ = parse_samples(line.encode(), openmetrics=False)
    assert dict(sample.labels) == {"__name__": "a", **labels}
    assert (sample.value, sample.t_ms) == (value, t_ms)


@pytest.mark.parametrize(
    ("body", "line", "reason"),
    [
        (b"a 1\nb{x=1} 2\n", 2, "label"),
        (b'a{x="1",x="2"} 1', 1, "twice"),
        (b"a 1_000", 1, "1_000|unexpected"),
        (b"a 0x10", 1, "unexpected"),
        (b"a", 1, "expected a value"),
        (b'{x="1"} 1', 1, "no metric name"),
        (b'a{x="\xff"} 1', 1, "UTF-8"),
        (b"# TYPE a nonsense", 1, "not a metric type"),
        (b"a 1 1.5", 1, "unexpected text"),
        (b"a 1 " + b"9" * 5000, 1, "unexpected text"),
        (b"<html>", 1, "metric name"),
    ],
)
def test_bad_text_is_refused_with_line_and_reason(body: bytes, line: int, reason: str) -> None:
    with pytest.raises(ExpositionError, match=reason) as caught:
        parse_samples(body, openmetrics=False)
    assert caught.value.line == line


def test_metadata() -> None:
    text = b"# HELP a first \\n line\n# TYPE a counter\na 1\n# remark\n  # TYPE b untyped\nb 1\n"
    _, families = parse_samples(text + b'# HELP "c.d" dots\n', openmetrics=False)
    assert [(f.metric, f.kind, f.help_text) for f in families] == [
        ("a", "counter", "first \n line"),
        ("b", "unknown", ""),
        ("c.d", "unknown", "dots"),
    ]
    _, families = parse_samples(b"# TYPE a_s gauge\n# UNIT a_s s\na_s 1\n# EOF\n", openmetrics=True)
    assert families[0].unit == "s"


def test_bounds_have_one_spelling() -> None:
    text = b'# TYPE h histogram\nh_bucket{le="1"} 1\n# TYPE s summary\ns{quantile="0.50"} 2\n'
    text += b'# TYPE g gauge\ng{le="1"} 1\n'
    samples, _ = parse_samples(text, openmetrics=False)
    assert [dict(s.labels).get("le") or dict(s.labels)["quantile"] for s in samples] == ["1.0", "0.5", "1"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (-1.0, "-1.0"), (10.0, "10.0"), (0.25, "0.25"), (1e5, "100000.0"), (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"), (0.0001, "0.0001"), (1e-5, "1e-05"), (math.inf, "+Inf"), (1e23, "1e+23"),
    ],
)  # fmt: skip
def test_bounds_are_spelled_as_go_does(number: float, text: str) -> None:
    assert openmetrics_float(number) == text


@pytest.mark.parametrize(
    ("stamp", "t_ms"), [("1.5", 1500), ("-1.5e3", -1_500_000), ("1e400", 2**62), ("-1e30", -(2**62))]
)
def test_openmetrics_timestamps_are_seconds(stamp: str, t_ms: int) -> None:
    (sample,), _ = parse_samples(f"a 1 {stamp}\n# EOF\n".encode(), openmetrics=True)
    assert sample.t_ms == t_ms


def lines_of(*pieces: str) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces), max_size=12).map(lambda parts: "".join(parts).encode())


@settings(max_examples=300, deadline=None)
@given(
    first=lines_of(
        "a",
        "b",
        " ",
        "{",
        "}",
        '"',
        "=",
        ",",
        "\n",
        "x",
        "\\",
        "# TYPE ",
        "# HELP ",
        " counter",
        "1",
        "9" * 25,
    ),
    second=st.one_of(
        st.binary(max_size=60), lines_of("a", " ", "1", "\n", "\r", '{x="1"}', "# EOF", "é", "NaN")
    ),
    openmetrics=st.booleans(),
)
def test_any_bytes_parse_or_are_refused_with_a_reason(first: bytes, second: bytes, openmetrics: bool) -> None:
    parser = ExpositionParser(Counter())
    for body in (first, second, first, b'a 1\na{x="1"} 2\n', second):
        try:
            parsed = parser.parse(body, openmetrics=openmetrics)
        except ExpositionError as e:
            assert e.line is not None
        else:
            assert len(parsed.refs) == len(parsed.values)


class Counter:
    """Numbers series in the order in which it is asked, and remembers each question."""

    def __init__(self) -> None:
        self.asked: list[LabelPairs] = []

    def __call__(self, labels: LabelPairs) -> int:
        self.asked.append(labels)
        return len(self.asked) - 1


def test_labels_are_parsed_once_in_a_series_life() -> None:
    resolve = Counter()
    parser = ExpositionParser(resolve)
    first = parser.parse(b'# TYPE a gauge\na{x="1"} 1\na{x="2"} 2\n', openmetrics=False)
    assert (first.same_layout, first.new_series) == (False, 2)
    again = parser.parse(b'# TYPE a gauge\na{x="1"} 30\na{x="2"} NaN\n', openmetrics=False)
    assert again.same_layout
    assert again.refs is first.refs
    assert again.values[0] == 30
    assert math.isnan(again.values[1])
    changed = parser.parse(b'# TYPE a gauge\na{x="2"} 4\na{x="3"} 5\n', openmetrics=False)
    assert (changed.same_layout, changed.new_series, changed.refs.tolist()) == (False, 1, [1, 2])
    assert len(resolve.asked) == 3


@pytest.mark.parametrize(
    ("second", "refs", "values"),
    [
        (b"# HELP a x1\na 2\nb 3\n", [0, 1], [2, 3]),  # the help grew by what could be a value
        (b"# HELP a y\na 2\nb 3\n", [0, 1], [2, 3]),  # another help of the same length
        (b"# HELP a x\na 2\nbb 3\n", [0, 2], [2, 3]),  # another series of the same line count
        (b"# HELP a x\nb 3\na 2\n", [1, 0], [3, 2]),  # reordered
        (b"# HELP a x\na 2 1700000000000\nb 3\n", [0, 1], [2, 3]),  # a timestamp appears
        (b"# HELP a x\na 2\nb 3", [0, 1], [2, 3]),  # the last newline is missing
        (b"# HELP a x\na 2\n\nb 3\n", [0, 1], [2, 3]),
        (b"# HELP a x\na  2\nb 3\n", [0, 1], [2, 3]),
    ],
)
def test_a_changed_layout_is_never_taken_for_the_old_one(
    second: bytes, refs: list[int], values: list[float]
) -> None:
    parser = ExpositionParser(Counter())
    parser.parse(b"# HELP a x\na 1\nb 1\n", openmetrics=False)
    parsed = parser.parse(second, openmetrics=False)
    assert not parsed.same_layout
    assert parsed.refs.tolist() == refs
    assert parsed.values.tolist() == values


@pytest.mark.parametrize("body", [b"a 1\nb x\n", b"a 1\n2\n", b"a 1\nb \n", b"a 1\nb\n", b"a 1\nb 1 x\n"])
def test_a_line_that_lost_its_series_or_value_is_refused(body: bytes) -> None:
    parser = ExpositionParser(Counter())
    parser.parse(b"a 1\nb 1\n", openmetrics=False)
    with pytest.raises(ExpositionError) as caught:
        parser.parse(body, openmetrics=False)
    assert caught.value.line == 2
    assert parser.parse(b"a 5\nb 6\n", openmetrics=False).values.tolist() == [5, 6]


def test_a_layout_holds_for_its_format_only() -> None:
    parser = ExpositionParser(Counter())
    parser.parse(b"a 1\n", openmetrics=False)
    with pytest.raises(ExpositionError, match="EOF"):
        parser.parse(b"a 2\n", openmetrics=True)


def test_the_same_text_means_something_else_in_another_format() -> None:
    parser = ExpositionParser(Counter())
    body = b"a 1 1700000000\n# EOF\n"
    assert parser.parse(body, openmetrics=True).t_ms.tolist() == [1700000000000]  # type: ignore[union-attr]
    assert parser.parse(body, openmetrics=False).t_ms.tolist() == [1700000000]  # type: ignore[union-attr]


def test_series_that_are_gone_are_forgotten() -> None:
    resolve = Counter()
    parser = ExpositionParser(resolve)
    for i in range(1500):
        parser.parse(f"a{i} 1\n".encode(), openmetrics=False)
    assert len(parser._refs) <= 1002
    parser.parse(b"a0 1\n", openmetrics=False)
    assert len(resolve.asked) == 1501


def test_dropped_series_stay_in_the_arrays() -> None:
    parser = ExpositionParser(lambda labels: DROPPED if labels[0][1] == "b" else 7)
    assert parser.parse(b"a 1\nb 2\n", openmetrics=False).refs.tolist() == [7, DROPPED]
