"""Who workloads belong to, and since when: what is told again and again becomes a row when it changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from trilens.model.ledger_facts import Owner
from trilens.store.workload_rows import KEY_IN, MEMBERSHIPS, OWNERS, PHASES, owner_of, owner_row, workload_key

if TYPE_CHECKING:
    from trilens.model.workload import Workload, WorkloadKey
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter

# While a cluster is listed a workload is told before its namespace is known: what follows so soon takes the
# place of what was told, and does not begin then.
_SETTLES_MS: Final = 60_000
_KNOWN: Final = 100_000  # of one that is forgotten a row is written again, which changes nothing


class Owners:
    """Thread-safe."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._lock = threading.Lock()
        self._known: dict[WorkloadKey, Owner] | None = None

    def told(self, record: Workload, at_ms: int) -> None:
        with self._lock:
            if self._known is None:
                self._known = _of_lasting(self._engine)
            known = self._known.pop(record.key, None)
            owner = Owner(at_ms, record.team, record.cost_centre, record.experiment, record.queue)
            if known is not None and known[1:] == owner[1:]:
                owner = known
            elif known is not None and at_ms < known.from_ms + _SETTLES_MS:  # or the clock was set back
                owner = owner._replace(from_ms=known.from_ms)
            self._known[record.key] = owner
            while len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
            if owner is not known:
                self._writer.put(OWNERS, owner_row(record.key, owner))


def _of_lasting(engine: Engine) -> dict[WorkloadKey, Owner]:
    """The last owner of each workload of which something lasts: the others are not told any more."""
    lasting = " UNION DISTINCT ".join(
        f"SELECT {KEY_IN[table.name]} FROM {table.name} WHERE to_ms IS NULL"
        for table in (MEMBERSHIPS, PHASES)
    )
    key = KEY_IN[OWNERS.name]
    found = engine.query_arrow(
        f"SELECT {', '.join(OWNERS.columns)} FROM {OWNERS.name} FINAL WHERE {key} IN ({lasting}) "
        f"ORDER BY from_ms DESC LIMIT 1 BY {key[1:-1]}"
    )
    return {workload_key(row): owner_of(row) for row in found.to_pylist()}
