"""How the watching goes, for people: what is followed, what is not, why not, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.collect.kubernetes.rbac import Grant
    from trilens.model.kubernetes import GroupKind


class Trouble(NamedTuple):
    text: str
    since_ms: int
    grant: Grant | None = None  # the permission that would end it


class ResourceState(NamedTuple):
    """One kind, in one namespace or in all."""

    kind: GroupKind
    version: str
    namespace: str  # "" for all
    synced: bool  # everything has been read at least once
    objects: int
    trouble: Trouble | None  # while it lasts, what is known may be old
    heard_ms: int | None  # when the server last said something about it
    readings: int  # of the whole list; more than one means that history was lost
    connections: int  # watches opened
    malformed: int  # objects and events that could not be read

    def complaint(self) -> str | None:
        """What is wrong, with what would help."""
        if self.trouble is None:
            return None
        where = f" in {self.namespace}" if self.namespace else ""
        help_ = f"; {self.trouble.grant}" if self.trouble.grant else ""
        return f"cannot follow {self.kind}{where}: {self.trouble.text}{help_}"


class ClusterState(NamedTuple):
    cluster: str
    discovered: bool  # what there is has been found out at least once
    trouble: Trouble | None  # with finding that out
    definitions: ResourceState  # of operators' kinds; without them, new ones are found later
    resources: tuple[ResourceState, ...]
    not_taken: int = 0  # what was seen and could not be handled; a defect of ours

    @property
    def synced(self) -> bool:
        """Everything that may be read has been read."""
        return self.discovered and all(
            state.synced or (state.trouble is not None and state.trouble.grant is not None)
            for state in self.resources
        )

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What to allow, for all to be seen."""
        troubles = [state.trouble for state in (self.definitions, *self.resources)]
        return tuple(sorted({trouble.grant for trouble in troubles if trouble and trouble.grant}))

    def complaints(self) -> list[str]:
        """What is wrong, a line each, with what would help."""
        lines = [f"{self.cluster}: {self.trouble.text}"] if self.trouble else []
        complaints = (state.complaint() for state in (self.definitions, *self.resources))
        return [*lines, *(f"{self.cluster}: {complaint}" for complaint in complaints if complaint)]
