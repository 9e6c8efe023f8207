"""One kind that Trilens watches: what it is called and what is kept of its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trilens.collect.kubernetes.mask import Mask, read_mask
from trilens.model.kubernetes import GroupKind

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, eq=False)
class WatchedKind:
    group_kind: GroupKind
    plural: str
    mask: Mask
    namespaced: bool = True
    version: str = ""  # of what every cluster has: used where discovery is not allowed
    by_operator: bool = False  # comes and goes with a CustomResourceDefinition
    page: int = 500  # objects a request, as kubectl asks for them
    remembered: bool = True  # False for what only happens: an Event is told once, and never goes
    on_request: bool = False
    refine: Callable[[dict[str, Any]], None] | None = None  # what a mask cannot say, done in place

    @property
    def definition(self) -> str:
        """What its CustomResourceDefinition would be called."""
        return f"{self.plural}.{self.group_kind.group}"


def watched(group: str, kind: str, plural: str, mask: str, **more: Any) -> WatchedKind:
    return WatchedKind(GroupKind(group, kind), plural, read_mask(mask), **more)
