"""A node of a cluster that was away has not copied all yet. Who starts on it would take what it lacks for
what never was, and tidy up around it: acknowledged records would go."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from trilens.store.engine import Engine

log = logging.getLogger(__name__)


def catch_up(engine: Engine) -> None:
    """Waits until the node that is asked has all that was written to its tables before. Raises StoreError
    where it takes longer than one statement may."""
    if engine.cluster is None:
        return
    found = engine.query_arrow(
        "SELECT name FROM system.tables "
        "WHERE database = currentDatabase() AND engine LIKE 'Replicated%' ORDER BY name"
    )
    for name in found["name"].to_pylist():
        try:
            engine.command(engine.cluster.sync(name))
        except StoreError as e:
            raise StoreError(
                f"the ClickHouse node at {engine.where} has not copied all of {name} yet: {e.message}",
                hint="start again when it has, or name another node in storage.url",
            ) from e
    log.info("the ClickHouse node has all that was written", extra={"tables": len(found)})
