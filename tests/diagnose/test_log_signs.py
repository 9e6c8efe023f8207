"""The table of signs: each example is read as what it is an example of."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource, read_logs
from trilens.diagnose.logs.signs import Depth, Kind, Sign, all_signs, families, filled, log_classes
from trilens.model.verdict import SURE_FROM
from trilens.settings.yaml_file import parse_yaml

DOCS = Path(__file__).parents[2] / "docs"
SIGNS = all_signs()


@pytest.mark.parametrize("sign", SIGNS, ids=[f"{one.cause}: {one.has}" for one in SIGNS])
def test_its_example_has_it(sign: Sign) -> None:
    found = read_logs([LogSource("x.log", [sign.example])])
    assert [hit.sign for hit in found.hits.values()] == [sign]


def test_each_class_says_what_to_do() -> None:
    for one in log_classes().values():
        assert one.fix, one.name
        assert one.text.endswith("."), one.name
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name)


def test_an_outcome_never_is_a_cause_by_itself() -> None:
    """Whatever is called an outcome is not sure enough to be told as the cause."""
    for sign in SIGNS:
        if log_classes()[sign.cause].depth is Depth.OUTCOME:
            assert sign.sure < 0.5, sign
        if sign.kind is Kind.FOLLOWS:
            assert sign.sure <= 0.6, sign


def test_a_class_that_a_line_does_not_make_sure_says_what_would_tell() -> None:
    for one in log_classes().values():
        unsure = [sign.has for sign in one.signs if sign.kind is Kind.ROOT and sign.sure < SURE_FROM]
        assert one.needs or not unsure, (one.name, unsure)


def test_the_table_has_no_key_twice() -> None:
    text = (resources.files("trilens.diagnose.logs") / "signs.yml").read_text()
    assert parse_yaml(text, Path("signs.yml")).tree.keys() == log_classes().keys()


def test_the_docs_have_every_class_and_every_family() -> None:
    text = (DOCS / "nccl.md").read_text()
    for name in [*log_classes(), *families()]:
        assert f"`{name}`" in text, name


def test_what_is_not_known_of_a_text_is_seen_as_such() -> None:
    assert filled("{who} and {what} have `emptyDir: {medium: Memory}`", {"who": "rank 3"}) == (
        "rank 3 and <what> have `emptyDir: {medium: Memory}`"
    )


@pytest.mark.parametrize(
    ("written", "cause"),
    [
        ("Failed to initialize NVML: driver/library version MISMATCH", "driver-mismatch"),
        (
            "RuntimeError: Timed out initializing process group in Store-based barrier on rank: 1",
            "rendezvous-timeout",
        ),
    ],
)
def test_capitals_hyphens_and_spaces_of_another_version_do_not_matter(written: str, cause: str) -> None:
    verdict = judge_logs([LogSource("rank1.log", [written])])
    assert verdict.cause == cause
