"""What Trilens depends on: what pyproject.toml names, what that brings along, and what is in the web app."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release.licences import licence_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).parents[2]
CORE: Final = "core"
# What people run. The others are for working on Trilens, or bring a program's own framework.
SHIPPED: Final = (CORE, "server", "agent", "mcp", "top", "notebook", "mlflow", "wandb")
_OURS: Final = "trilens"


class Part(NamedTuple):
    """A package as it is installed here, or is in the web app."""

    name: str
    version: str
    licence: str | None  # SPDX; None where the package does not say
    kind: str  # as in a package URL: pypi, npm

    @property
    def url(self) -> str:
        return f"pkg:{self.kind}/{self.name.replace('@', '%40')}@{self.version}"


@cache
def named() -> dict[str, tuple[Requirement, ...]]:
    """By extra, as pyproject.toml has them; what needs no extra is `core`."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    every = {CORE: project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: tuple(one for one in map(Requirement, written) if one.name != _OURS)
        for extra, written in every.items()
    }


def brought_along(requirements: Iterable[Requirement]) -> list[Part]:
    """These and all that they need on this machine. Raises LookupError for one that is not installed."""
    seen: dict[tuple[str, frozenset[str]], Part] = {}
    waiting = list(requirements)
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key not in seen:
            seen[key] = installed(wanted.name)
            waiting += _needs(wanted)
    return sorted(set(seen.values()))


def shipped() -> list[Part]:
    return brought_along(one for extra in SHIPPED for one in named()[extra])


def installed(name: str) -> Part:
    try:
        found = distribution(name)
    except PackageNotFoundError as e:
        raise LookupError(f"{name} is not installed: make setup") from e
    return Part(canonicalize_name(name), found.version, licence_of(found.metadata.json), "pypi")


def in_web_app() -> list[Part]:
    """What the lock file has that is not only for building it."""
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))
    return sorted(
        Part(place.removeprefix("node_modules/"), one["version"], one.get("license"), "npm")
        for place, one in lock["packages"].items()
        if place and not one.get("dev")
    )


def _needs(wanted: Requirement) -> Iterator[Requirement]:
    for written in distribution(wanted.name).requires or ():
        one = Requirement(written)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
            yield one
