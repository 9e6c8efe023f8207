"""What people may do: the grants of the settings that are for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.errors import LoginRefused
from trilens.model.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.settings.access import GrantSettings


def granted_nothing(user: str) -> LoginRefused:
    """For who came in the right way: another login or token of the same name would be no help."""
    return LoginRefused(
        f"{user} is known, but may do nothing here",
        hint="whoever runs this server grants it, in access.grants",
    )


class People:
    """`use` may be called while others ask."""

    def __init__(self, grants: Sequence[GrantSettings] = ()) -> None:
        self._grants = tuple(grants)

    def use(self, grants: Sequence[GrantSettings]) -> None:
        self._grants = tuple(grants)

    def identity(self, user: str, groups: frozenset[str], how: str) -> Identity | None:
        """None where nothing is granted to this one."""
        found = [one.grant for one in self._grants if one.is_for(user, groups)]
        return Identity(user, how, found[0], tuple(found[1:])) if found else None

    def named_groups(self, groups: frozenset[str]) -> frozenset[str]:
        """Those that any grant is for: some are in hundreds of others."""
        return groups & {name for one in self._grants for name in one.groups}
