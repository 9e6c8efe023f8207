"""When a cluster was read through for the first time, so that its workloads can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.kubernetes import GroupKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.collect.kubernetes.state import ClusterState

LATE_S: Final = 30.0  # after the pods: a kind that nobody can read must not hide everything else
_POD: Final = GroupKind("", "Pod")


class FirstLook:
    """No pod is placed before its owners are known, and nothing that was open before a restart is ended
    before it was looked for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._done: set[str] = set()
        self._pods_since: dict[str, float] = {}

    def is_done(self, state: ClusterState) -> bool:
        """Once done, it stays so: what is lost later is only not up to date."""
        if state.cluster not in self._done and (state.synced or self._is_late(state)):
            self._done.add(state.cluster)
        return state.cluster in self._done

    def _is_late(self, state: ClusterState) -> bool:
        pods = [resource.synced for resource in state.resources if resource.kind == _POD]
        if not pods or not all(pods):
            return False
        now = self._clock()
        return now - self._pods_since.setdefault(state.cluster, now) >= LATE_S
