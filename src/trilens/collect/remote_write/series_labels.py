"""The labels of a received series, and what makes them unusable."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from trilens.model.errors import RemoteWriteError
from trilens.model.labels import METRIC_NAME, Labels, make_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN: Final = 200  # characters


def checked_labels(pairs: Sequence[tuple[str, str]]) -> Labels:
    """Sorted, without empty values. Any order is taken, as Prometheus does."""
    names = Counter(name for name, _ in pairs)
    labels = make_labels(pairs)
    if len(names) < len(pairs):
        twice = next(name for name, count in names.items() if count > 1)
        raise RemoteWriteError(f"the label {twice[:_SHOWN]!r} appears twice in {_shown(labels)}")
    if "" in names:
        raise RemoteWriteError(f"a label has no name in {_shown(labels)}")
    if not any(name == METRIC_NAME for name, _ in labels):
        raise RemoteWriteError(f"the series has no metric name: {_shown(labels)}")
    return labels


def _shown(labels: Labels) -> str:
    """The front of them: in 2.0 a few bytes stand for each label, so all of them may be more than there is
    memory for."""
    text = ", ".join(f'{name[:_SHOWN]}="{value[:_SHOWN]}"' for name, value in labels[:_SHOWN])
    return "{" + text + "}" if len(text) <= _SHOWN else "{" + text[:_SHOWN] + "..."
