"""Which lines mean what: the table in signs.yml."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from trilens.model.errors import ConfigError
from trilens.model.verdict import Layer, Missing

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE: Final = "signs.yml"
_CLASS_KEYS: Final = {
    "family",
    "layer",
    "depth",
    "may_follow",
    "between_hosts",
    "brings",
    "text",
    "fix",
    "needs",
    "signs",
}
_SIGN_KEYS: Final = {"has", "match", "sure", "kind", "info", "example"}
# The one that is written in C, where there is one: a command should not spend its time on this.
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LEFT_OUT: Final = str.maketrans("", "", " -_")
_NAMED: Final = re.compile(r"\{(\w+)\}")


class Depth(StrEnum):
    """The deeper one is the likelier cause of the other. Deepest first."""

    HARDWARE = "hardware"
    NODE = "node"
    PROGRAM = "program"
    FABRIC = "fabric"
    OUTCOME = "outcome"

    @property
    def order(self) -> int:
        return list(Depth).index(self)


class Kind(StrEnum):
    ROOT = "root"
    WARNS = "warns"  # by itself it stops nothing
    FOLLOWS = "follows"


class Sign(NamedTuple):
    cause: str  # the class's name
    has: str
    letters: str  # of that
    match: re.Pattern[str] | None
    sure: float
    kind: Kind
    info: bool
    example: str


class LogClass(NamedTuple):
    name: str
    family: str
    layer: Layer
    depth: Depth
    may_follow: bool
    between_hosts: bool
    brings: frozenset[str]
    text: str
    fix: tuple[str, ...]
    needs: tuple[Missing, ...]
    signs: tuple[Sign, ...]


@cache
def log_classes() -> Mapping[str, LogClass]:
    """ConfigError for a table that is not as its first lines say."""
    text = (resources.files("trilens.diagnose.logs") / _FILE).read_text()
    told = _Loader(text).get_single_data()
    classes = {name: _class(name, one) for name, one in told.items()}
    for one in classes.values():
        if unknown := sorted(one.brings - classes.keys()):
            raise ConfigError(f"{one.name} brings what is no class: {', '.join(unknown)}", where=_FILE)
    return classes


@cache
def all_signs() -> tuple[Sign, ...]:
    return tuple(sign for one in log_classes().values() for sign in one.signs)


def families() -> tuple[str, ...]:
    """Of all classes that may be told as a cause."""
    return tuple(sorted({one.family for one in log_classes().values() if one.depth is not Depth.OUTCOME}))


def filled(text: str, names: Mapping[str, str]) -> str:
    """With {names} replaced by what they stand for, as far as that is known."""
    return _NAMED.sub(lambda found: names.get(found[1], f"<{found[1]}>"), text)


def letters_of(text: str) -> str:
    """By which lines are compared with signs: versions of one program differ in capitals, hyphens and spaces
    ("store-based barrier", "Store based barrier")."""
    return text.lower().translate(_LEFT_OUT)


def _class(name: str, told: dict[str, Any]) -> LogClass:
    if wrong := told.keys() - _CLASS_KEYS:
        raise ConfigError(f"{name}: a class has no {', '.join(sorted(wrong))}", where=_FILE)
    return LogClass(
        name,
        told["family"],
        Layer(told["layer"]),
        Depth(told["depth"]),
        bool(told.get("may_follow", False)),
        bool(told.get("between_hosts", False)),
        frozenset(told.get("brings", ())),
        told["text"],
        tuple(told["fix"]),
        tuple(Missing(what, remedy) for what, remedy in told.get("needs", ())),
        tuple(_sign(name, one) for one in told["signs"]),
    )


def _sign(cause: str, told: dict[str, Any]) -> Sign:
    if wrong := told.keys() - _SIGN_KEYS:
        raise ConfigError(f"{cause}: a sign has no {', '.join(sorted(wrong))}", where=_FILE)
    if not any(letter.isalpha() for letter in told["has"]):
        raise ConfigError(f"{cause}: has {told['has']!r}, which has no letters", where=_FILE)
    pattern = told.get("match")
    return Sign(
        cause,
        told["has"],
        letters_of(told["has"]),
        re.compile(pattern) if pattern else None,
        float(told["sure"]),
        Kind(told.get("kind", "root")),
        bool(told.get("info", False)),
        told["example"],
    )
