"""When a group is evaluated: every interval, at an offset of its own, so that they do not all run at once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.alert.rule import RuleGroup


class Schedule(NamedTuple):
    """The moments offset + k * interval. They do not depend on when the server was started."""

    interval_ms: int
    offset_ms: int

    @classmethod
    def of(cls, group: RuleGroup) -> Schedule:
        digest = hashlib.blake2b(f"{group.file}\0{group.name}".encode(), digest_size=8).digest()
        return cls(group.interval_ms, int.from_bytes(digest) % group.interval_ms)

    def after(self, now_ms: int) -> int:
        """The first moment later than now."""
        return now_ms - (now_ms - self.offset_ms) % self.interval_ms + self.interval_ms
