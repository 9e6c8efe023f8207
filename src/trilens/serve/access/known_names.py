"""The teams and clusters that a server knows, so that a token for one that nobody has is no surprise."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from trilens.model.identity import Grant
    from trilens.model.query import QueryGuard
    from trilens.settings.tree import Settings

    _Owned = Collection[tuple[str, str | None]]

_SHOWN: Final = 8


class Owned(Protocol):
    def owned(self, guard: QueryGuard | None = None) -> _Owned:
        """The cluster and the team of every workload that is kept."""


class Machines(Protocol):
    def clusters(self, *, guard: QueryGuard | None = None) -> list[str]: ...


class Named(Protocol):
    @property
    def names(self) -> Iterable[str]:
        """Of clusters that are told of."""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """By what was seen and is kept, and by what the settings in force name."""

    workloads: Owned
    machines: Machines
    intakes: Named | None
    settings: Callable[[], Settings]

    def doubts(self, grant: Grant, guard: QueryGuard) -> list[str]:
        """Names of the grant that are known from nowhere: each may come later, or be misspelt."""
        if not grant.teams and not grant.clusters:
            return []
        owned = self.workloads.owned(guard)
        return [
            *_unknown("workload", "team", grant.teams, self._teams(owned)),
            *_unknown("workload or machine", "cluster", grant.clusters, self._clusters(owned, guard)),
        ]

    def _teams(self, owned: _Owned) -> Iterator[str | None]:
        settings = self.settings()
        yield from (team for _, team in owned)
        yield from (budget.team for budget in settings.budgets.limits)
        yield from (team for one in settings.access.grants for team in one.teams)

    def _clusters(self, owned: _Owned, guard: QueryGuard) -> Iterator[str | None]:
        settings = self.settings()
        yield from (cluster for cluster, _ in owned)
        yield from self.machines.clusters(guard=guard)
        yield from self.intakes.names if self.intakes is not None else ()
        yield from settings.kubernetes.clusters
        yield from (budget.cluster for budget in settings.budgets.limits)
        yield from (cluster for one in settings.access.grants for cluster in one.clusters)


def _unknown(
    seen: str, kind: str, wanted: Collection[str] | None, known: Iterable[str | None]
) -> Iterator[str]:
    if not wanted:
        return
    there = sorted({name for name in known if name})
    unknown = sorted({*wanted}.difference(there))
    for name in unknown[:_SHOWN]:
        hint = f"there are {_few(there)}" if there else "none is known yet"
        if near := difflib.get_close_matches(name, there, n=1):
            hint = f"did you mean {near[0]!r}?"
        yield f"no {seen} of {kind} {name!r} is known, and no setting names it: {hint}"
    if len(unknown) > _SHOWN:
        yield f"{len(unknown) - _SHOWN} more names of {kind}s are not known either"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
