"""Which grants make sense, and what several of them are together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.identity import Grant, Right

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Some = frozenset[str] | None


def grant_of(rights: Iterable[str], clusters: Sequence[str] = (), teams: Sequence[str] = ()) -> Grant:
    """No clusters, or no teams, are all of them. Raises ValueError where nobody could say what it means."""
    named = [*rights]
    known = {right.value for right in Right}
    if unknown := [one for one in named if one not in known]:
        raise ValueError(f"{unknown[0]!r} is no right: there are {', '.join(known_rights())}")
    if not named:
        raise ValueError(f"it needs a right: {', '.join(known_rights())}")
    held = frozenset(map(Right, named))
    if Right.ADMIN in held and (clusters or teams):
        raise ValueError("admin is for all of it: leave clusters and teams out, or give a lesser right")
    if Right.INTAKE in held and teams:
        raise ValueError(
            "intake cannot be bound to teams, for whose a sample is comes from the workload, and not from "
            "who sends it; bind it to clusters, or give reading a token of its own"
        )
    return Grant(held, frozenset(clusters) or None, frozenset(teams) or None)


def known_rights() -> list[str]:
    return [right.value for right in Right]


def for_right(grants: Iterable[Grant], right: Right) -> Grant | None:
    """What somebody who has all of these may see where this right is asked for; None: nothing.

    Never more than was granted: two that are bound to different teams in different clusters have no sum that
    one grant could say, so the first of them counts.
    """
    total: Grant | None = None
    for one in grants:
        if one.allows(right):
            held = Grant(frozenset({right}), one.clusters, one.teams)  # what else it allows is bound to these
            total = held if total is None else _added(total, held)
    return total


def _added(one: Grant, other: Grant) -> Grant:
    rights = one.rights
    if _covers(one.clusters, other.clusters) and _covers(one.teams, other.teams):
        return Grant(rights, one.clusters, one.teams)
    if _covers(other.clusters, one.clusters) and _covers(other.teams, one.teams):
        return Grant(rights, other.clusters, other.teams)
    if one.clusters == other.clusters:
        return Grant(rights, one.clusters, _both(one.teams, other.teams))
    if one.teams == other.teams:
        return Grant(rights, _both(one.clusters, other.clusters), one.teams)
    return one


def _covers(wide: _Some, narrow: _Some) -> bool:
    return wide is None or (narrow is not None and narrow <= wide)


def _both(one: _Some, other: _Some) -> _Some:
    return None if one is None or other is None else one | other
