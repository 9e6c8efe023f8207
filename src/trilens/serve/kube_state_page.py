"""The series of clusters' objects in the text format of Prometheus: hundreds of thousands of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.kube_state.families import FAMILIES
from trilens.resolve.kube_state.kinds import state_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.model.kubernetes import KubeObject

MARKER: Final = "trilens_kube_state_info"
"""Tells our series from those of a kube-state-metrics when a Prometheus has them."""

_MARKED: Final = "1 for each cluster whose kube_* series are of Trilens."


def page(clusters: Mapping[str, Iterable[KubeObject]]) -> bytes:
    """`clusters` by their names."""
    lines: dict[str, list[str]] = {family.metric: [] for family in FAMILIES}
    for objects in clusters.values():
        for obj in objects:
            for metric, value, labels in state_samples(obj):
                lines[metric].append(_line(metric, labels, value))
    text = [_described(MARKER, _MARKED, "gauge"), *(_line(MARKER, {"cluster": name}, 1) for name in clusters)]
    for metric, help_text, kind in FAMILIES:
        if lines[metric]:
            text += [_described(metric, help_text, kind), *lines[metric]]
    return "".join(text).encode()


def _described(metric: str, help_text: str, kind: str) -> str:
    return f"# HELP {metric} {help_text}\n# TYPE {metric} {kind}\n"


def _line(metric: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items() if text)
    return f"{metric}{{{pairs}}} {float(value)!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
