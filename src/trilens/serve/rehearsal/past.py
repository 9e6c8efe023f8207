"""What a server would know of a simulated cluster if it had watched from its beginning on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.serve.rehearsal.night import follow
from trilens.serve.storage import open_store
from trilens.simulate.world import World

if TYPE_CHECKING:
    from trilens.settings.storage import StorageSettings
    from trilens.simulate.scenario import Scenario


def keep_past(
    scenario: Scenario, seed: int, born_ms: int, until_ms: int, storage: StorageSettings, cluster: str
) -> None:
    """Into a store that nobody has open. Ranks tell of their steps themselves, when they find a server."""
    world = World(scenario, start_ms=born_ms, seed=seed, telling_ranks=0)
    store = open_store(storage, upkeep=False)
    try:
        follow(world, store, cluster, until_ms, lambda _: None)
    finally:
        store.close()
