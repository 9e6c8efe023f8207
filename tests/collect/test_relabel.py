from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from trilens.collect.relabel import RelabelConfig, relabel

LABELS = {"a": "foo", "b": "bar", "c": "baz"}


def run(labels: dict[str, str], *steps: dict[str, Any]) -> dict[str, str] | None:
    return relabel(labels, [RelabelConfig.model_validate(step) for step in steps])


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        (
            {"source_labels": ["a"], "regex": "f(.*)", "target_label": "d", "replacement": "ch${1}-ch$1"},
            {"d": "choo-choo"},
        ),
        (
            {
                "source_labels": ["a", "b"],
                "regex": "f(.*);(.*)r",
                "target_label": "a",
                "replacement": "b${1}${2}m",
            },
            {"a": "boobam"},
        ),
        ({"source_labels": ["a"], "regex": "o", "target_label": "d", "replacement": "x"}, {}),  # anchored
        (
            {"source_labels": ["a"], "regex": "(f).*", "target_label": "${1}oo", "replacement": "x"},
            {"foo": "x"},
        ),
        ({"target_label": "d", "replacement": "fixed"}, {"d": "fixed"}),
        ({"source_labels": ["missing"], "target_label": "a"}, {"a": None}),  # an empty value removes
        (
            {
                "source_labels": ["a"],
                "regex": "(?P<x>f)(o+)",
                "target_label": "d",
                "replacement": "$x-$2-$9-$$-$2x-$",
            },
            {"d": "f-oo--$--$"},
        ),
        ({"source_labels": ["a"], "action": "uppercase", "target_label": "d"}, {"d": "FOO"}),
        (
            {"source_labels": ["a", "b"], "separator": "-", "action": "Lowercase", "target_label": "d"},
            {"d": "foo-bar"},
        ),
        ({"source_labels": ["c"], "action": "hashmod", "modulus": 1000, "target_label": "d"}, {"d": "976"}),
        ({"action": "labelmap", "regex": "([ab])", "replacement": "${1}_x"}, {"a_x": "foo", "b_x": "bar"}),
        ({"action": "labeldrop", "regex": "[ab]"}, {"a": None, "b": None}),
        ({"action": "labelkeep", "regex": "a|c"}, {"b": None}),
    ],
)
def test_actions_that_change(step: dict[str, Any], changes: dict[str, str | None]) -> None:
    expected = {name: value for name, value in {**LABELS, **changes}.items() if value is not None}
    assert run(LABELS, step) == expected


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ({"source_labels": ["a"], "regex": "f.*", "action": "keep"}, True),
        ({"source_labels": ["a"], "regex": "f", "action": "keep"}, False),
        ({"source_labels": ["a", "b"], "regex": "foo;bar", "action": "drop"}, False),
        ({"source_labels": ["a"], "regex": "oo", "action": "drop"}, True),
        (
            {"source_labels": ["a"], "regex": "b.*|f.o", "action": "drop"},
            False,
        ),  # anchored around alternatives
        ({"source_labels": ["a"], "target_label": "b", "action": "keepequal"}, False),
        ({"source_labels": ["a"], "target_label": "b", "action": "dropequal"}, True),
        ({"source_labels": ["x"], "target_label": "y", "action": "dropequal"}, False),  # both are missing
    ],
)
def test_actions_that_keep_or_drop(step: dict[str, Any], kept: bool) -> None:
    assert run(LABELS, step) == (LABELS if kept else None)


def test_a_dot_matches_a_line_break() -> None:
    assert run({"a": "x\ny"}, {"source_labels": ["a"], "regex": "x.y", "action": "drop"}) is None


def test_steps_see_the_work_of_steps_before() -> None:
    result = run(
        LABELS,
        {"source_labels": ["a"], "target_label": "d"},
        {"source_labels": ["d"], "regex": "foo", "action": "keep"},
        {"regex": "d", "action": "labeldrop"},
    )
    assert result == LABELS


def test_the_input_is_left_alone() -> None:
    labels = dict(LABELS)
    run(labels, {"target_label": "d", "replacement": "x"})
    assert labels == LABELS


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"action": "replace"}, "target_label"),
        ({"action": "hashmod", "target_label": "d"}, "modulus"),
        ({"action": "labeldrop", "source_labels": ["a"]}, "nothing else"),
        ({"action": "lowercase", "target_label": "d", "replacement": "x"}, "replacement"),
        ({"action": "uppercase", "target_label": "1d"}, "label name"),
        ({"regex": "(a", "target_label": "d"}, "RE2"),
        ({"regex": "a(?=b)", "target_label": "d"}, "RE2"),
        ({"action": "explode"}, "Input should be"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(step: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        RelabelConfig.model_validate(step)
