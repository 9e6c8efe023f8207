"""Decision trees: data, in trees/*.yml, that say what is asked after what, and what each end means.

tree: pending
title: Why its pods have no node
questions:
  scheduler:                         # the first one is asked first
    ask: What does the scheduler say?
    by: scheduler_says               # an evidence function
    doubt: 0.9                       # what all beyond it is worth if nobody knows; 0.7 unless said
    answers:
      taint: {end: untolerated-taint}
      no-words: quota                # the next question
      unknown: {tree: blind}         # another tree, from its first question
ends:
  untolerated-taint:
    layer: platform
    text: "{pod} tolerates no {taint}, which {nodes} have."
    fix: ["Add to its pod template: {toleration}"]
    confidence: 0.95
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.diagnose import evidence
from trilens.diagnose.answer import FUNCTIONS, UNKNOWN
from trilens.model.errors import ConfigError
from trilens.model.verdict import Layer
from trilens.settings.yaml_file import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.settings.yaml_file import Step, YamlFile

# YAML takes these for truth values, and people write them as words.
_WORDS: Final[Mapping[object, str]] = {True: "yes", False: "no"}

# What nobody could answer may have been the cause: whatever is found beyond it is that much less sure.
# A question may say less: where its answer only makes surer what others tell as well.
_PASSED_UNKNOWN: Final = 0.7

FIRST: Final = "start"  # the tree that finds out which others to ask


class Way(NamedTuple):
    """Where an answer leads: to one of these."""

    question: str | None = None
    tree: str | None = None
    end: str | None = None


class Question(NamedTuple):
    name: str
    text: str
    by: str
    answers: Mapping[str, Way]
    doubt: float = _PASSED_UNKNOWN


class End(NamedTuple):
    cause: str
    layer: Layer
    text: str
    fix: tuple[str, ...]
    confidence: float  # where every answer on the way to it is certain


@dataclass(frozen=True, slots=True)
class Tree:
    name: str
    title: str
    first: str
    questions: Mapping[str, Question]
    ends: Mapping[str, End]


@cache
def all_trees() -> Mapping[str, Tree]:
    """ConfigError for one that asks what nobody answers, leads nowhere, or has what is never reached."""
    for module in iter_modules(evidence.__path__):
        import_module(f"{evidence.__name__}.{module.name}")
    folder = resources.files("trilens.diagnose") / "trees"
    files = sorted((one for one in folder.iterdir() if one.name.endswith(".yml")), key=lambda one: one.name)
    trees = {}
    for file in files:
        tree = read_tree(file.read_text(), Path(file.name))
        trees[tree.name] = tree
    for tree in trees.values():
        for question in tree.questions.values():
            for way in question.answers.values():
                if way.tree is not None and way.tree not in trees:
                    raise ConfigError(f"{tree.name}: {question.name} leads to no tree: {way.tree!r}")
    return trees


def read_tree(text: str, file: Path) -> Tree:
    yaml = parse_yaml(text, file)
    told = yaml.tree
    if not isinstance(told, dict) or not {"tree", "title", "questions", "ends"} <= told.keys():
        raise ConfigError("a tree has `tree`, `title`, `questions` and `ends`", where=str(file))
    questions = {name: _question(yaml, name, one) for name, one in told["questions"].items()}
    ends = {name: _end(yaml, name, one) for name, one in told["ends"].items()}
    tree = Tree(told["tree"], told["title"], next(iter(questions)), questions, ends)
    _check_ways(yaml, tree)
    return tree


def _question(yaml: YamlFile, name: str, told: Any) -> Question:
    path: tuple[Step, ...] = ("questions", name)
    if not isinstance(told, dict) or told.keys() - {"doubt"} != {"ask", "by", "answers"}:
        raise ConfigError(f"{name}: a question has `ask`, `by` and `answers`", where=yaml.locate(path))
    known = FUNCTIONS.get(told["by"])
    if known is None:
        raise ConfigError(f"{name}: no function {told['by']!r} answers it", where=yaml.locate((*path, "by")))
    answers = {_WORDS.get(value, value): _way(way) for value, way in told["answers"].items()}
    if answers.keys() != {*known.answers, UNKNOWN}:
        wrong = sorted(answers.keys() ^ {*known.answers, UNKNOWN})
        where = yaml.locate((*path, "answers"))
        raise ConfigError(f"{name}: {known.name} gives other answers: {', '.join(wrong)}", where=where)
    return Question(name, told["ask"], told["by"], answers, float(told.get("doubt", _PASSED_UNKNOWN)))


def _way(told: Any) -> Way:
    return Way(**told) if isinstance(told, dict) else Way(question=told)


def _end(yaml: YamlFile, name: str, told: Any) -> End:
    if not isinstance(told, dict) or told.keys() != {"layer", "text", "fix", "confidence"}:
        where = yaml.locate(("ends", name))
        raise ConfigError(f"{name}: an end has `layer`, `text`, `fix` and `confidence`", where=where)
    return End(name, Layer(told["layer"]), told["text"], tuple(told["fix"]), float(told["confidence"]))


def _check_ways(yaml: YamlFile, tree: Tree) -> None:
    """From the first question every other one and every end is reached, and none twice on one way."""
    reached: set[str] = set()

    def follow(name: str, before: tuple[str, ...]) -> None:
        where = yaml.locate(("questions", name))
        if name in before:
            raise ConfigError(f"{name}: is asked again on the way from itself", where=where)
        question = tree.questions.get(name)
        if question is None:
            raise ConfigError(f"{before[-1]}: leads to no question: {name!r}", where=str(yaml.file))
        reached.add(name)
        for way in question.answers.values():
            if way.end is not None and way.end not in tree.ends:
                raise ConfigError(f"{name}: leads to no end: {way.end!r}", where=where)
            if way.end is not None:
                reached.add(way.end)
            elif way.question is not None:
                follow(way.question, (*before, name))

    follow(tree.first, ())
    if lost := sorted({*tree.questions, *tree.ends} - reached):
        raise ConfigError(f"{tree.name}: never reached: {', '.join(lost)}", where=str(yaml.file))
