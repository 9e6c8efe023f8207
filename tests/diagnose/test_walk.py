"""From question to question: how a tree is walked, and how sure its ends are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trilens.diagnose.answer import FUNCTIONS, UNKNOWN, Answer, EvidenceFunction
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.tree import Tree, all_trees, read_tree
from trilens.diagnose.walk import why
from trilens.model.errors import ConfigError
from trilens.model.finding import Subject
from trilens.model.run import RunId
from trilens.model.verdict import Fact, Missing
from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Iterator

CASE = Case(CaseFile(CaseSubject(SubjectKind.NODE, "c", "", "node-7"), 0, 60_000))
TEXT = """
tree: start
title: A try
questions:
  ready:
    ask: Is the node ready?
    by: is_ready
    answers: {yes: hot, no: {end: not-ready}, unknown: hot}
  hot:
    ask: Is it hot?
    by: is_hot
    answers: {yes: {end: too-hot}, no: {tree: other}, unknown: {end: cannot-tell}}
ends:
  not-ready: {layer: node, text: "{node} is not ready.", fix: ["Look at {node}."], confidence: 0.9}
  too-hot: {layer: gpu, text: "{node} is at {degrees} C.", fix: [], confidence: 0.8}
  cannot-tell: {layer: unknown, text: Nobody knows., fix: [], confidence: 0.4}
"""
OTHER = """
tree: other
title: Elsewhere
questions:
  back: {ask: Again, by: is_ready, answers: {yes: {tree: start}, no: {end: gone}, unknown: {end: gone}}}
ends:
  gone: {layer: node, text: Gone., fix: [], confidence: 1}
"""


# Two things at once: of telemetry, and of the node.
TWO = """
tree: start
title: Two at once
questions:
  ready:
    ask: Is it ready?
    by: is_ready
    answers: {yes: {end: unseen}, no: {end: gone}, unknown: {end: gone}}
ends:
  unseen: {layer: telemetry, text: Unseen., fix: ["{remedy}", "Look."], confidence: 0.95}
  gone: {layer: node, text: Gone., fix: [], confidence: 0.6}
"""


@pytest.fixture
def says() -> Iterator[dict[str, Answer]]:
    """What the two functions of these trees answer, for a test to change."""
    told = {"is_ready": Answer(("yes",), names={"node": "node-7"}), "is_hot": Answer(("yes",))}
    for name in told:
        FUNCTIONS[name] = EvidenceFunction(name, lambda _, name=name: told[name], frozenset({"yes", "no"}))
    yield told
    for name in told:
        del FUNCTIONS[name]


def _trees() -> dict[str, Tree]:
    return {"start": read_tree(TEXT, Path("start.yml")), "other": read_tree(OTHER, Path("other.yml"))}


def test_answers_lead_to_an_end_whose_text_has_the_names_that_were_met(says: dict[str, Answer]) -> None:
    fact = Fact("88 C", "DCGM_FI_DEV_GPU_TEMP", 59_000)
    says["is_hot"] = Answer(("yes",), (fact,), 0.5, {"degrees": "88"}, subject=Subject(node="node-7"))
    [verdict] = why(CASE, _trees())
    assert (verdict.cause, verdict.text) == ("too-hot", "node-7 is at 88 C.")
    assert verdict.confidence == pytest.approx(0.4)
    assert verdict.subject.node == "node-7"
    assert [(asked.question, asked.answer) for asked in verdict.way] == [("ready", "yes"), ("hot", "yes")]
    assert verdict.way[1].facts == (fact,)


def test_what_was_known_of_one_rank_is_not_said_of_another(says: dict[str, Answer]) -> None:
    first = Subject(rank=4, node="node-1", gpu=GpuUuid("GPU-4"), run=RunId("r"))
    says["is_ready"] = replace(says["is_ready"], subject=first)
    says["is_hot"] = Answer(("yes",), names={"degrees": "88"}, subject=Subject(rank=3))
    assert why(CASE, _trees())[0].subject == Subject(rank=3, run=RunId("r"))
    says["is_hot"] = Answer(("yes",), names={"degrees": "88"}, subject=Subject(rank=4, gpu_number="0"))
    assert why(CASE, _trees())[0].subject == first._replace(gpu_number="0")


def test_what_nobody_answered_makes_all_beyond_it_less_sure_and_is_told(says: dict[str, Answer]) -> None:
    sure = why(CASE, _trees())[0]
    says["is_ready"] = Answer.unknown(Missing("its Node", "let nodes be read"))
    [doubtful] = why(CASE, _trees())
    assert doubtful.cause == sure.cause
    assert doubtful.confidence < sure.confidence
    assert doubtful.missing == (Missing("its Node", "let nodes be read"),)


def test_a_question_says_how_much_is_lost_where_nobody_knows(says: dict[str, Answer]) -> None:
    says["is_ready"] = Answer.unknown(Missing("its Node", "let nodes be read"))
    text = TEXT.replace("by: is_ready\n", "by: is_ready\n    doubt: 0.9\n", 1)
    [verdict] = why(CASE, {**_trees(), "start": read_tree(text, Path("start.yml"))})
    assert verdict.confidence == pytest.approx(0.8 * 0.9)


def test_the_same_function_asked_again_on_the_way_adds_no_doubt(says: dict[str, Answer]) -> None:
    says["is_ready"] = Answer(("no",), confidence=0.6)
    says["is_hot"] = Answer(("no",))
    text = TEXT.replace("no: {end: not-ready}", "no: hot", 1).replace("  not-ready: {", "  spare: {", 1)
    text = text.replace("unknown: {end: cannot-tell}", "unknown: {end: spare}", 1).replace(
        "unknown: hot}", "unknown: {end: cannot-tell}}", 1
    )
    [verdict] = why(CASE, {**_trees(), "start": read_tree(text, Path("start.yml"))})
    assert (verdict.cause, verdict.confidence) == ("gone", 0.6)


def test_several_answers_at_once_are_followed_each_and_the_surest_comes_first(
    says: dict[str, Answer],
) -> None:
    says["is_ready"] = Answer(("yes", "no"), names={"node": "node-7"})
    assert [verdict.cause for verdict in why(CASE, _trees())] == ["not-ready", "too-hot"]


def test_a_tree_that_leads_back_is_not_walked_for_ever(says: dict[str, Answer]) -> None:
    says["is_hot"] = Answer(("no",))
    assert why(CASE, _trees()) == []


def test_evidence_that_fails_is_missing_and_the_walk_goes_on(says: dict[str, Answer]) -> None:
    def fails(_: Case) -> Answer:
        raise KeyError("spec")

    FUNCTIONS["is_ready"] = EvidenceFunction("is_ready", fails, frozenset({"yes", "no"}))
    [verdict] = why(CASE, _trees())
    assert verdict.cause == "too-hot"
    assert verdict.way[0].answer == UNKNOWN
    assert "is_ready failed" in verdict.missing[0].what


def test_an_answer_that_no_tree_knows_is_missing_and_the_walk_goes_on(says: dict[str, Answer]) -> None:
    says["is_ready"] = Answer(("perhaps",))
    [verdict] = why(CASE, _trees())
    assert verdict.cause == "too-hot"
    assert "perhaps" in verdict.missing[0].what


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(("by: is_hot", "by: is_cold"), "no function 'is_cold'", id="no-function"),
        pytest.param(("no: {tree: other}, ", ""), "gives other answers: no", id="answer-left-out"),
        pytest.param(("yes: hot", "yes: cold"), "leads to no question: 'cold'", id="no-question"),
        pytest.param(("yes: {end: too-hot}", "yes: ready"), "asked again", id="circle"),
        pytest.param(("no: {end: not-ready}", "no: {end: lost}"), "leads to no end: 'lost'", id="no-end"),
        pytest.param(("no: {end: not-ready}", "no: hot"), "never reached: not-ready", id="never-reached"),
        pytest.param(("layer: node, ", ""), "an end has", id="end-without-layer"),
    ],
)
def test_a_tree_that_cannot_be_walked_is_refused(
    says: dict[str, Answer], change: tuple[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        read_tree(TEXT.replace(*change, 1), Path("start.yml"))
    assert "start.yml" in str(refused.value)


def test_the_trees_that_come_along_can_be_walked() -> None:
    assert "start" in all_trees()
    assert why(CASE)[0].cause == "nothing-known"


def test_every_evidence_function_is_asked_by_a_tree() -> None:
    asked = {question.by for tree in all_trees().values() for question in tree.questions.values()}
    assert asked == set(FUNCTIONS)


def test_what_is_not_seen_comes_after_what_is_wrong_however_sure_it_is(says: dict[str, Answer]) -> None:
    trees = {"start": read_tree(TWO, Path("two.yml"))}
    says["is_ready"] = Answer(("yes", "no"))
    assert [verdict.cause for verdict in why(CASE, trees)] == ["gone", "unseen"]
    # What cannot be told does not stand before what can.
    says["is_ready"] = Answer(("yes", "no"), confidence=0.8)
    assert [verdict.cause for verdict in why(CASE, trees)] == ["unseen", "gone"]


def test_a_line_of_a_fix_that_says_nothing_here_is_left_out(says: dict[str, Answer]) -> None:
    trees = {"start": read_tree(TWO, Path("two.yml"))}
    says["is_ready"] = Answer(("yes",), names={"remedy": ""})
    assert why(CASE, trees)[0].fix == ("Look.",)
