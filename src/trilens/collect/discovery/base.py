"""What every kind of discovery does, and the list of target groups that files and HTTP endpoints share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from trilens.model.errors import DiscoveryError

TargetLabels: TypeAlias = dict[str, str]
"""A target as discovered: `__address__`, labels of its own, and `__meta_*`."""

Publish: TypeAlias = Callable[[str, Sequence[TargetLabels]], None]
"""Say what the targets of one source are now; an empty list takes them away."""

ADDRESS = "__address__"


class Discovery(Protocol):
    async def run(self, publish: Publish) -> None:
        """Publish each source at start and whenever it changes, until cancelled.

        A source that cannot be read for a while keeps the targets it had: log it, do not raise.
        """


def merge_labels(address: str, labels: dict[str, str], extra: dict[str, str]) -> TargetLabels:
    merged = {**labels, **extra, ADDRESS: address}
    return {_storable(name): _storable(value) for name, value in merged.items()}


def _storable(text: str) -> str:
    """JSON and YAML can spell half of a surrogate pair, which UTF-8 cannot; Prometheus reads it as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_target_groups(document: Any, extra: dict[str, str]) -> list[TargetLabels]:
    """`[{"targets": ["host:port", ...], "labels": {...}}, ...]`, as files and HTTP endpoints give it."""
    if not isinstance(document, list):
        raise DiscoveryError(f"expected a list of target groups, got {type(document).__name__}")
    found: list[TargetLabels] = []
    for i, group in enumerate(document):
        if not isinstance(group, dict) or not set(group) <= {"targets", "labels"}:
            raise DiscoveryError(f"group {i}: expected targets and labels and nothing else")
        targets, labels = group.get("targets") or [], group.get("labels") or {}
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise DiscoveryError(f"group {i}: targets must be a list of texts")
        if not isinstance(labels, dict) or not all(
            isinstance(text, str) for pair in labels.items() for text in pair
        ):
            raise DiscoveryError(f"group {i}: labels must be texts by name")
        found += [merge_labels(target, labels, extra) for target in targets]
    return found
