"""The labelled set: how it is scored, and those of its cases that take no time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench.detect.cases import calm_looks
from bench.detect.episodes import CALM, calm_episodes
from bench.report import merged
from bench.verdicts import corpora, gloo, public, report
from bench.verdicts.labelled import Case, Label, Mark, Said
from bench.verdicts.lots import FINE, LOTS, QUIET
from bench.verdicts.simulated import asked, turns

from servers import require_corpus
from trilens.diagnose.tree import all_trees
from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

RIGHT = Label({"dead-gpu": "it is"}, (3,), "GPU-3")
SEED = 11


def _said(cause: str, confidence: float, *ranks: int, gpu: str = "") -> Said:
    return Said(cause, confidence, "", ranks, gpu)


@pytest.mark.parametrize(
    ("label", "said", "mark", "names_the_rank"),
    [
        pytest.param(RIGHT, [_said("dead-gpu", 0.9, 3)], Mark.RIGHT, True, id="right"),
        pytest.param(RIGHT, [_said("dead-gpu", 0.5)], Mark.RIGHT, False, id="no-rank"),
        pytest.param(RIGHT, [_said("dead-gpu", 0.5, gpu="GPU-3")], Mark.RIGHT, True, id="by-its-gpu"),
        pytest.param(RIGHT, [_said("dead-gpu", 0.49, 3)], Mark.CANNOT_TELL, None, id="too-unsure"),
        pytest.param(RIGHT, [_said("dead-gpu", 0.9, 4)], Mark.SURE_WRONG, None, id="another-rank"),
        pytest.param(
            RIGHT, [_said("dead-gpu", 0.9, 3, gpu="GPU-4")], Mark.SURE_WRONG, None, id="another-gpu"
        ),
        pytest.param(RIGHT, [_said("rank-killed", 0.79, 3)], Mark.UNSURE_WRONG, None, id="unsure"),
        pytest.param(
            RIGHT,
            [_said("dead-gpu", 0.95, 3), _said("slow-rank", 0.8, 5)],
            Mark.SURE_WRONG,
            None,
            id="sure-of-another-as-well",
        ),
        pytest.param(
            RIGHT,
            [_said("dead-gpu", 0.95, 3), _said("slow-rank", 0.7)],
            Mark.RIGHT,
            True,
            id="of-two",
        ),
        pytest.param(RIGHT, [], Mark.CANNOT_TELL, None, id="nothing-said"),
        pytest.param(Label({}, may_not_know=True), [_said("x", 0.4)], Mark.RIGHT, None, id="rightly-unsure"),
        pytest.param(Label({}, may_not_know=True), [_said("x", 0.6)], Mark.UNSURE_WRONG, None, id="guessed"),
    ],
)
def test_what_an_answer_is_worth(
    label: Label, said: list[Said], mark: Mark, names_the_rank: bool | None
) -> None:
    case = Case("a group", "a case", label, said)
    assert (case.mark, case.names_the_rank) == (mark, names_the_rank)


def test_every_label_is_an_end_of_a_tree() -> None:
    ends = {end for tree in all_trees().values() for end in tree.ends}
    labels = [FINE, *(one.causes for one in LOTS), *(one.causes for one in QUIET)]
    assert {cause for causes in labels for cause in causes} <= ends
    assert all(reason for causes in labels for reason in causes.values())


def _unseen(look: int) -> list[Case]:
    return [one for one in public.unseen() if one.group == public.unseen_group(look, public.TODAY)]


@pytest.mark.parametrize(
    "recorded",
    [gloo.flights, gloo.logs, public.known, pytest.param(lambda: _unseen(1), id="unseen-first-look")],
)
def test_nothing_that_was_recorded_is_told_wrong_for_sure(recorded: Callable[[], Iterable[Case]]) -> None:
    cases = list(recorded())
    marks = [one.mark for one in cases]
    assert Mark.SURE_WRONG not in marks
    assert marks.count(Mark.RIGHT) >= 0.95 * len(marks), [report.told(one) for one in cases]


def test_what_the_reader_of_logs_was_not_mended_for_is_not_told_wrong_for_sure_either() -> None:
    assert [report.told(one) for one in _unseen(2) if one.mark is Mark.SURE_WRONG] == []


@pytest.mark.parametrize("recorded", [corpora.flights, corpora.scheduling, corpora.xids])
def test_nothing_of_the_corpora_is_told_wrong(recorded: Callable[[], Iterator[Case]]) -> None:
    require_corpus("scheduling")
    wrong = (Mark.SURE_WRONG, Mark.UNSURE_WRONG)
    assert [report.told(one) for one in recorded() if one.mark in wrong] == []


def test_a_job_in_which_nothing_is_wrong_is_told_so() -> None:
    [episode] = calm_episodes(SEED, [replace(one, seeds=1) for one in CALM if one.name == "nothing at all"])
    [files] = calm_looks(episode, [90])
    told = {file.subject.name: asked(file)[0] for file in files}
    assert (told["train-1"].cause, told["train-1"].confidence) == ("nothing-wrong", 0.9)
    assert told["chat-1"].confidence < TELL_FROM  # nobody tells whether it answers


def test_seeds_share_no_episode() -> None:
    one, other = ({turn.episode.key for turn in turns(seed)} for seed in (SEED, SEED + 1))
    assert len(one) >= 50
    assert not one & other


def test_the_table_takes_its_own_place_and_lists_what_is_not_right() -> None:
    cases = [
        Case("simulated: a", "one", RIGHT, [_said("dead-gpu", 0.9, 3)]),
        Case("simulated: a", "two", RIGHT, [_said("rank-killed", 0.9, 3)]),
        Case(public.unseen_group(1, public.AT_FIRST_SIGHT), "three", RIGHT, [_said("dead-gpu", 0.1)]),
    ]
    text = report.section(cases, SEED)
    assert "| simulated: a | 2 | 1 | 0 | 0 | 1 | 1 of 1 |" in text
    assert "| **all of these** | 2 |" in text
    assert "two: said rank-killed, rank 3 (0.90), right is dead-gpu, rank 3" in text
    assert report.last_line(cases) == (
        "why: cases 2 right 1 confident_wrong 1 public 0 right 0 confident_wrong 0 "
        "at_first_sight 1 right 0 confident_wrong 0"
    )
    after = merged("# Results\n\n## Why\n\nthat stays\n\n## Causes\n\nthat goes\n", [text])
    assert "that stays" in after
    assert "that goes" not in after
    assert json.loads(json.dumps(report.as_objects(cases)))[1]["mark"] == "confident and wrong"
