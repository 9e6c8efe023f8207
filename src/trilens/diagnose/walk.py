"""Walks the trees over a case, question by question, to verdicts."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import FUNCTIONS, UNKNOWN, Answer
from trilens.diagnose.tree import FIRST, all_trees
from trilens.model.finding import Subject
from trilens.model.verdict import NOBODY, TELL_FROM, Asked, Layer, Missing, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.diagnose.case import Case
    from trilens.diagnose.tree import End, Question, Tree, Way

log = logging.getLogger(__name__)

_PLACE: Final = ("rank", "pod", "node", "gpu", "gpu_number")


@dataclass(frozen=True, slots=True)
class _Walked:
    """What was learnt on the way so far."""

    way: tuple[Asked, ...] = ()
    confidence: float = 1.0
    names: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    subject: Subject = NOBODY
    since_ms: int | None = None
    by: frozenset[str] = frozenset()  # functions that were asked: the same answer again adds no doubt

    def with_answer(self, asked: Asked, answer: Answer, question: Question) -> _Walked:
        sureness = answer.confidence * (question.doubt if asked.answer == UNKNOWN else 1.0)
        return _Walked(
            (*self.way, asked),
            self.confidence * (1.0 if question.by in self.by else sureness),
            {**self.names, **answer.names},
            tuple(dict.fromkeys((*self.missing, *answer.missing))),
            _led_on(self.subject, answer.subject),
            answer.since_ms if answer.since_ms is not None else self.since_ms,
            self.by | {question.by},
        )


def _led_on(before: Subject, told: Subject) -> Subject:
    """Whom it is about after one more answer. Where that is somebody else, the place of the one before is not
    theirs."""
    known = before._asdict()
    named = {name: value for name, value in told._asdict().items() if value is not None}
    if any(name in named and known[name] not in (None, named[name]) for name in _PLACE):
        known |= dict.fromkeys(_PLACE)
    return Subject(**(known | named))


def why(case: Case, trees: Mapping[str, Tree] | None = None) -> list[Verdict]:
    """The surest first; of equal ones the one that was found first, which is what a tree says would help."""
    walk = _Walk(case, trees or all_trees())
    found = sorted(walk.tree(FIRST, _Walked()), key=_place)
    # Two ways may lead to one end: the surer one tells it.
    return list({(verdict.cause, verdict.text): verdict for verdict in reversed(found)}.values())[::-1]


def _place(verdict: Verdict) -> tuple[bool, bool, float]:
    """Whoever asks why a job has fallen does not ask first whether it is seen well, sure as that may be."""
    return verdict.confidence < TELL_FROM, verdict.layer is Layer.TELEMETRY, -verdict.confidence


class _Walk:
    def __init__(self, case: Case, trees: Mapping[str, Tree]) -> None:
        self._case = case
        self._answers: dict[str, Answer] = {}  # each function looks once
        self._trees = trees

    def tree(self, name: str, walked: _Walked) -> Iterator[Verdict]:
        tree = self._trees[name]
        if any(asked.tree == name for asked in walked.way):  # it led to another that leads back
            return
        yield from self._question(tree, tree.first, walked)

    def _question(self, tree: Tree, name: str, walked: _Walked) -> Iterator[Verdict]:
        question = tree.questions[name]
        answer = self._answer(question.by)
        for value in answer.values:
            asked = Asked(tree.name, name, question.text, value, answer.facts, answer.confidence)
            yield from self._follow(
                tree, question.answers[value], walked.with_answer(asked, answer, question)
            )

    def _follow(self, tree: Tree, way: Way, walked: _Walked) -> Iterator[Verdict]:
        if way.end is not None:
            yield _verdict(tree.ends[way.end], walked)
        elif way.tree is not None:
            yield from self.tree(way.tree, walked)
        elif way.question is not None:
            yield from self._question(tree, way.question, walked)

    def _answer(self, by: str) -> Answer:
        if by not in self._answers:
            self._answers[by] = self._look(by)
        return self._answers[by]

    def _look(self, by: str) -> Answer:
        try:
            answer = FUNCTIONS[by].look(self._case)
            assert {*answer.values} <= {*FUNCTIONS[by].answers, UNKNOWN}, f"it gave {answer.values}"
        except Exception as e:
            # One object of a shape that nobody thought of must not hide what the others tell.
            log.exception("evidence could not be looked at, which is a defect", extra={"function": by})
            return Answer.unknown(Missing(f"{by} failed: {e!r}", "tell the authors of Trilens"))
        return answer


def _verdict(end: End, walked: _Walked) -> Verdict:
    names = _Names(walked.names)
    return Verdict(
        end.cause,
        end.layer,
        end.text.format_map(names),
        round(end.confidence * walked.confidence, 3),
        tuple(line for line in (told.format_map(names) for told in end.fix) if line),
        walked.subject,
        walked.since_ms,
        walked.way,
        walked.missing,
    )


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"<{name}>"
