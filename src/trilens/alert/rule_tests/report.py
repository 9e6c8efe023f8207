"""What became of a file of rule tests, in promtool's words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trilens.alert.templates.values import exponential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.labels import Labels


class FiringAlert(NamedTuple):
    labels: Labels
    annotations: Labels


class SampleThere(NamedTuple):
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Failure:
    """`about` is the alert or the expression; a test as a whole has none."""

    text: str
    test: str = ""
    about: str = ""
    eval_time: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    file: str
    checks: int  # alerts and expressions that were asked for
    failures: tuple[Failure, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failures


def alerts_text(alerts: Sequence[FiringAlert]) -> str:
    if not alerts:
        return "[]"
    told = (
        f"{i}:" + _indented(f"\nLabels:{_braced(one.labels)}\nAnnotations:{_braced(one.annotations)}", "  ")
        for i, one in enumerate(alerts)
    )
    return _indented("[\n" + ",\n".join(told) + "\n]", " " * 12)


def samples_text(samples: Sequence[SampleThere]) -> str:
    return (
        ", ".join(f"{_braced(one.labels)} {exponential(one.value).replace('e', 'E')}" for one in samples)
        or "nil"
    )


def _braced(labels: Labels) -> str:
    return "{" + ", ".join(f"{name}={json.dumps(text, ensure_ascii=False)}" for name, text in labels) + "}"


def _indented(text: str, indent: str) -> str:
    return text.replace("\n", "\n" + indent)
