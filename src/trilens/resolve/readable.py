"""Which kinds of objects could be read: a missing owner means something else where nobody may look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.workload import Doubt
from trilens.resolve.operators import BY_KIND

if TYPE_CHECKING:
    from trilens.model.kubernetes import GroupKind
    from trilens.resolve.objects import Link


class Readable:
    def __init__(self) -> None:
        self._synced: set[GroupKind] = set()
        self._refused: dict[GroupKind, str] = {}

    def synced(self, group_kind: GroupKind) -> None:
        self._synced.add(group_kind)
        self._refused.pop(group_kind, None)

    def refused(self, group_kind: GroupKind, remedy: str) -> None:
        self._refused[group_kind] = remedy
        self._synced.discard(group_kind)

    def remedy(self, group_kind: GroupKind) -> str | None:
        return self._refused.get(group_kind)

    def is_synced(self, group_kind: GroupKind) -> bool:
        return group_kind in self._synced

    def doubt_about(self, missing: Link) -> Doubt | None:
        """What it means that this owner is not there; None where it does not matter."""
        what = f"{missing.group_kind} {missing.name}"
        if missing.group_kind in self._refused:
            return Doubt(
                "owner-unreadable",
                f"{what} may not be read, nor what is above it",
                self._refused[missing.group_kind],
            )
        if missing.group_kind in self._synced:
            return Doubt("owner-gone", f"{what}, the owner of its pods, does not exist")
        operator = BY_KIND.get(missing.group_kind)
        if operator is not None and not operator.is_outermost:
            return Doubt("owner-unread", f"{what} is not watched: what is above it is not known")
        return None
