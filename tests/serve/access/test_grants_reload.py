"""Grants follow a reload; the rest of `access` needs a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memory_access import MemoryAudit, MemoryTokens
from trilens.model.errors import ConfigError
from trilens.serve.access.build import AccessKeeper
from trilens.serve.reloading import Followers, Reloading
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.settings.tree import Settings


def settings(folder: Path, **access: Any) -> Settings:
    proxy = {"trusted": ["10.0.0.0/8"], **access.pop("proxy", {})}
    overrides = {"access.proxy": proxy, **{f"access.{name}": value for name, value in access.items()}}
    return load_settings(overrides={**overrides, "rules.builtin": False}, environ={})


def grants(user: str) -> list[dict[str, list[str]]]:
    return [{"users": [user], "rights": ["read"]}]


async def test_grants_follow_and_nothing_else_does(tmp_path: Path) -> None:
    before = settings(tmp_path, grants=grants("ada"))
    keeper = AccessKeeper(before, None, MemoryTokens(), MemoryAudit())
    wanted = [settings(tmp_path, grants=grants("bob"))]
    reloading = Reloading(before, lambda: wanted[0], Followers(None, None, None, access=keeper.use))
    people = keeper._people
    assert people.identity("ada", frozenset(), "proxy") is not None
    await reloading.reload()
    assert people.identity("ada", frozenset(), "proxy") is None
    assert people.identity("bob", frozenset(), "proxy") is not None
    assert reloading.in_force.settings.access.grants == wanted[0].access.grants

    wanted[0] = settings(tmp_path, grants=grants("eve"), proxy={"trusted": ["11.0.0.0/8"]})
    with pytest.raises(ConfigError, match=r"access\.proxy\.trusted"):
        await reloading.reload()
    assert people.identity("eve", frozenset(), "proxy") is None
