"""A store's records of fixes, for tests in which something happens as one is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.fix import Fix
    from trilens.store.fixes import FixRecords


class PassedOn:
    def __init__(self, records: FixRecords) -> None:
        self._records = records

    def put(self, fix: Fix) -> None:
        self._records.put(fix)

    def settled(self, timeout_s: float) -> bool:
        return self._records.settled(timeout_s)

    def get(self, id: str) -> Fix | None:
        return self._records.get(id)

    def open(self) -> Sequence[Fix]:
        return self._records.open()

    def latest(self, limit: int) -> Sequence[Fix]:
        return self._records.latest(limit)
