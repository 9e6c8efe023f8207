"""The labels of a received series, and what makes them unusable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.errors import RemoteWriteError
from trilens.model.labels import METRIC_NAME, Labels, make_labels

if TYPE_CHECKING:
    from collections.abc import Sequence


def checked_labels(pairs: Sequence[tuple[str, str]]) -> Labels:
    """Sorted, without empty values. Any order is taken, as Prometheus does."""
    labels = make_labels(pairs)
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RemoteWriteError(f"the label {twice!r} appears twice in {_shown(labels)}")
    if "" in names:
        raise RemoteWriteError(f"a label has no name in {_shown(labels)}")
    if not any(name == METRIC_NAME for name, _ in labels):
        raise RemoteWriteError(f"the series has no metric name: {_shown(labels)}")
    return labels


def _shown(labels: Labels) -> str:
    text = "{" + ", ".join(f'{name}="{value}"' for name, value in labels) + "}"
    return text if len(text) <= 200 else text[:200] + "..."
