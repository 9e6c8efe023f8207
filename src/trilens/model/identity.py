"""Who asks, and what that one may do and see."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Right(StrEnum):
    INTAKE = "intake"  # send samples, records of runs, heartbeats; read nothing
    READ = "read"
    FIX = "fix"  # change what others see or what runs: silence, acknowledge, fix; reads, too
    ADMIN = "admin"  # all of it: tokens, backups, imports, reload


_INCLUDED: Final = {
    Right.INTAKE: frozenset({Right.INTAKE}),
    Right.READ: frozenset({Right.READ}),
    Right.FIX: frozenset({Right.FIX, Right.READ}),
    Right.ADMIN: frozenset(Right),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """None is "all of them"; an empty set would be nothing at all."""

    rights: frozenset[Right]
    clusters: frozenset[str] | None = None
    teams: frozenset[str] | None = None

    def allows(self, right: Right) -> bool:
        return any(right in _INCLUDED[one] for one in self.rights)

    @property
    def text(self) -> str:
        """For the audit: "read of team nlp, cluster prod"."""
        bounds = [("team", self.teams), ("cluster", self.clusters)]
        of = [f"{kind} {name}" for kind, names in bounds for name in sorted(names or ())]
        return ", ".join(sorted(self.rights)) + (f" of {', '.join(of)}" if of else "")

    @property
    def is_whole_fleet(self) -> bool:
        return self.clusters is None and self.teams is None


EVERYTHING: Final = Grant(frozenset({Right.ADMIN}))
NOTHING: Final = Grant(frozenset())  # of who is known, and was granted nothing


@dataclass(frozen=True, slots=True)
class Identity:
    """`name` is what the audit and people read; `how` the door it came through. Who was granted several
    things has the others in `more`; a route adds up those that allow what it needs."""

    name: str
    how: str
    grant: Grant
    more: tuple[Grant, ...] = ()

    @property
    def grants(self) -> tuple[Grant, ...]:
        return (self.grant, *self.more)

    @property
    def rights(self) -> frozenset[Right]:
        return frozenset(right for grant in self.grants for right in grant.rights)


# Whoever can reach a server that listens on loopback and asks for nothing.
LOCAL: Final = Identity("local", "loopback", EVERYTHING)
