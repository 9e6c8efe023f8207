"""What of the fleet an asker may see: all of it, or what teams and clusters have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.model.matcher import Matcher
from trilens.serve.routes import identity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

_SOME_TROUBLE: Final = "a part of the fleet could not be asked: this may be as it was, or not all of it"


@dataclass(frozen=True, slots=True)
class Sight:
    """None is "all of them". What has no team is seen by nobody who is bound to teams. Hashable: what is
    remembered for one asker is remembered under his sight."""

    clusters: frozenset[str] | None = None
    teams: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        return self.clusters is None and self.teams is None

    def shows_cluster(self, cluster: str | None) -> bool:
        return self.clusters is None or cluster in self.clusters

    def shows(self, cluster: str | None, team: str | None) -> bool:
        return self.shows_cluster(cluster) and (self.teams is None or team in self.teams)

    def shows_node(self, cluster: str | None) -> bool:
        """Machines are shared: no team's, but a cluster's."""
        return self.teams is None and self.shows_cluster(cluster)

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """What every selector of a query has beside its own."""
        bound = (("cluster", self.clusters), ("team", self.teams))
        return tuple(one for name, values in bound if values is not None for one in _any_of(name, values))

    def warnings(self, told: Sequence[str]) -> list[str]:
        """Without the names in them, which may be others'. A new list: who answers adds to it."""
        return list(told) if self.is_whole else [_SOME_TROUBLE] * bool(told)


WHOLE: Final = Sight()


def sight_of(request: Request) -> Sight:
    grant = identity_of(request).grant
    return WHOLE if grant.is_whole_fleet else Sight(grant.clusters, grant.teams)


def _any_of(name: str, values: frozenset[str]) -> tuple[Matcher, ...]:
    named = sorted(value for value in values if value)  # an empty one would match what has no such label
    if not named:
        return Matcher(name, "=", ""), Matcher(name, "!=", "")
    if len(named) == 1:
        return (Matcher(name, "=", named[0]),)
    return (Matcher(name, "=~", "|".join(map(re.escape, named))),)
