"""Which pods are on which node, and which nodes their cloud takes back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.resolve.interruptions import is_reclaimed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trilens.model.kubernetes import KubeObject
    from trilens.resolve.events import Noted


class Nodes:
    """A node that is taken back goes before its pods do, so what was said of it outlives it."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._pods: defaultdict[str, set[str]] = defaultdict(set)
        self._reclaimed: set[str] = set()

    def changed(self, node: KubeObject, events: Mapping[str, Noted]) -> Iterable[str]:
        """Returns the uids of the pods that this concerns."""
        self._there.add(node.name)
        if is_reclaimed(node, events) == (node.name in self._reclaimed):
            return ()
        self._reclaimed ^= {node.name}
        return tuple(self._pods.get(node.name, ()))

    def removed(self, node: KubeObject) -> None:
        self._there.discard(node.name)
        self._forget(node.name)

    def names(self) -> Iterator[str]:
        """Of the nodes that are there."""
        yield from tuple(self._there)

    def put(self, pod: str, node: str) -> None:
        if node:
            self._pods[node].add(pod)

    def take(self, pod: str, node: str) -> None:
        if node in self._pods:
            self._pods[node].discard(pod)
            self._forget(node)

    def is_reclaimed(self, node: str) -> bool:
        return node in self._reclaimed

    def _forget(self, node: str) -> None:
        if not self._pods.get(node):
            self._pods.pop(node, None)
            if node not in self._there:
                self._reclaimed.discard(node)
