"""Prometheus's own evaluation scripts, and the list of what is left out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from servers import corpus
from trilens.model.errors import PromQLScriptError
from trilens.promql.conformance import Exclusions, Report, run_files
from trilens.promql.script import Eval, read_text
from trilens.promql.verdict import nearly_equal

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = sorted(corpus("promql").glob("*.test"))
needs_corpus = pytest.mark.skipif(
    not SCRIPTS, reason="no PromQL scripts: set TRILENS_CORPORA to the folder that holds promql/*.test"
)


@needs_corpus
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script(script: Path) -> None:
    report = run_files([script])
    assert not report.failures, "\n".join(
        f"{x.file}:{x.line}: {x.query}\n  {x.reason}\n  got  {x.got}\n  want {x.want}"
        for x in report.failures
    )


@pytest.fixture(scope="module")
def report() -> Report:
    return run_files(SCRIPTS)


@needs_corpus
def test_the_list_of_exclusions_is_exact(report: Report) -> None:
    """More excluded than listed, or fewer, fails: what starts to work must be taken off the list."""
    listed = {feature.name: feature.evals for feature in Exclusions.shipped().features}
    assert report.counted_exclusions() == listed
    assert report.needless == []


@needs_corpus
def test_every_evaluation_is_accounted_for(report: Report) -> None:
    written = sum(
        line.strip().startswith("eval") for script in SCRIPTS for line in script.read_text().splitlines()
    )
    assert report.passed + report.excluded + report.failed == written
    assert report.as_dict()["failed"] == 0


@needs_corpus
def test_nothing_is_excluded_without_a_list() -> None:
    with_list = run_files(SCRIPTS)
    without = run_files(SCRIPTS, Exclusions((), {}))
    assert without.excluded == 0
    assert without.passed == with_list.passed
    assert without.failed == with_list.excluded


def _run(tmp_path: Path, text: str, exclusions: Exclusions | None = None) -> Report:
    script = tmp_path / "made.test"
    script.write_text(text)
    return run_files([script], exclusions)


LOADED = 'load 1m\n  m{a="1"} 1 2 3\n  m{a="2"} 10 20 30\n\n'


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        ('eval instant at 2m m\n  m{a="1"} 3\n', "another result"),
        ('eval instant at 2m m\n  m{a="1"} 3\n  m{a="2"} 30.001\n', "another result"),
        ("eval instant at 2m sum(m)\n  33\n", "another kind of result"),
        ('eval instant at 2m sort(m)\n  expect ordered\n  m{a="2"} 30\n  m{a="1"} 3\n', "another order"),
        ("eval instant at 2m sum(m)\n  expect fail\n", "the query should have failed"),
        ("eval instant at 2m sum(\n  {} 33\n", "the query failed"),
        (
            "eval instant at 2m topk(NaN, m)\n  expect fail msg: no such\n",
            "the query failed with another message",
        ),
        ("eval instant at 2m sum(m)\n  expect warn\n  {} 33\n", "missing warning"),
        ("eval instant at 2m quantile(2, m)\n  expect no_warn\n  {} +Inf\n", "unexpected warning"),
        ("eval instant at 2m rate(m[3m])\n  expect no_info\n", "unexpected info"),
        ("eval range from 0 to 2m step 1m sum(m)\n  {} 11 22 _\n", "another result"),
        ('eval instant at 0 "a"\n  expect string "b"\n', "another string"),
    ],
)
def test_a_difference_is_a_failure(tmp_path: Path, evaluation: str, reason: str) -> None:
    report = _run(tmp_path, LOADED + evaluation)
    assert [x.reason for x in report.failures] == [reason]
    assert report.failures[0].line == 5
    assert report.passed == 0


def test_a_passing_evaluation_that_is_listed_is_reported(tmp_path: Path) -> None:
    listed = Exclusions((), {("made.test", "sum(m)"): "a reason"})
    report = _run(tmp_path, LOADED + "eval instant at 2m sum(m)\n  {} 33\n", listed)
    assert (report.passed, report.excluded) == (1, 0)
    assert [x.query for x in report.needless] == ["sum(m)"]


def test_an_unlisted_feature_is_a_failure(tmp_path: Path) -> None:
    report = _run(tmp_path, LOADED + "eval instant at 2m info(m)\n", Exclusions((), {}))
    assert [x.reason for x in report.failures] == ["not supported"]


def test_a_query_that_reads_a_native_histogram_is_excluded_and_others_are_not(tmp_path: Path) -> None:
    text = (
        "load 1m\n  h {{sum:1 count:1}}x3\n  f 1x3\n\neval instant at 1m h\n\neval instant at 1m f\n  f 1\n"
    )
    report = _run(tmp_path, text)
    assert (report.passed, report.excluded, report.failed) == (1, 1, 0)


def test_series_notation() -> None:
    text = "eval range from 0 to 9m step 1m m\n  m{a=\"x}y\", b='z'} 1+2x2 _x2 -1 stale 3x1\n"
    (command,) = read_text(text, "made")
    assert isinstance(command, Eval)
    series = command.series[0]
    assert series.labels == {"__name__": "m", "a": "x}y", "b": "z"}
    assert series.points[:6] == [1, 3, 5, None, None, -1]
    assert series.points[6] != series.points[6]
    assert series.points[7:] == [3, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lod 1m\n", "made:1: no command: 'lod 1m'"),
        ("\n# a comment\nload\n", "made:3: not a duration: ''"),
        ("load up\n", "made:1: not a duration: 'up'"),
        ("load 0\n", "made:1: must be greater than 0: '0'"),
        ("load 1m\n  m 1\n  # a comment ends the block\n  n 1", "made:4: no command: 'n 1'"),
        ("load 1m\n  m 1\n  n 1 two\n", "made:3: cannot read the values 'two'"),
        ("load 1m\n  m 1\n  n\n", "made:3: no values for the series n"),
        (
            "load 1m\n  m 1\n  n{a=1} 2\n",
            "made:3: cannot read the labels {a=1}: unexpected character inside braces: '1'",
        ),
        ("eval instant at x m\n", "made:1: not a duration: 'x'"),
        ("eval range from 0 to 1m step 0 m\n", "made:1: must be greater than 0: '0'"),
        ('eval instant at 0 m\n  m{a="1"} 1\n  expect luck\n', "made:3: unknown expectation 'expect luck'"),
        ("eval instant at 0 m\n  m\n", "made:2: no values for the series m"),
        ('eval instant at 0 "a"\n  expect string a\n', "made:2: not a string: a"),
    ],
)
def test_a_script_that_cannot_be_read_names_the_line(text: str, message: str) -> None:
    with pytest.raises(PromQLScriptError) as caught:
        list(read_text(text, "made"))
    assert str(caught.value) == message


def test_nothing_runs_if_one_script_cannot_be_read(tmp_path: Path) -> None:
    """Or what failed before it would not be told."""
    good, bad = tmp_path / "good.test", tmp_path / "bad.test"
    good.write_text(LOADED + "eval instant at 2m sum(m)\n  {} 34\n")
    bad.write_text("lod\n")
    with pytest.raises(PromQLScriptError, match=r"bad\.test:1"):
        run_files([good, bad])


def test_the_report_has_every_detail(tmp_path: Path) -> None:
    text = LOADED + "eval instant at 2m sum(m)\n  {} 34\n\neval instant at 2m info(m)\n"
    assert _run(tmp_path, text).as_dict() == {
        "passed": 0,
        "failed": 1,
        "excluded": 1,
        "failures": [
            {
                "file": str(tmp_path / "made.test"),
                "line": 5,
                "query": "sum(m)",
                "reason": "another result",
                "got": "{} 33",
                "want": "{} 34",
            }
        ],
        "exclusions": [
            {"file": str(tmp_path / "made.test"), "line": 8, "query": "info(m)", "reason": "info()"}
        ],
    }


def test_tolerance() -> None:
    assert nearly_equal(1.0, 1.0 + 1e-7)
    assert not nearly_equal(1.0, 1.0 + 1e-5)
    assert not nearly_equal(0.0, 1e-9)
    assert nearly_equal(float("nan"), float("nan"))
    assert not nearly_equal(float("inf"), float("-inf"))
