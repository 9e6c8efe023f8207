"""Where each rank was last, told to the others through the job's store: for when one goes missing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.sdk.distributed.process_group import Store


class Whereabouts(NamedTuple):
    rank: int
    step: int | None
    phase: str | None
    told_s: float  # of its clock

    def text(self) -> str:
        where = "before its first step" if self.step is None else f"in step {self.step}"
        phase = f", {self.phase}" if self.phase else ""
        return f"rank {self.rank} was last {where}{phase}, {max(0.0, time.time() - self.told_s):.0f} s ago"


def tell_where(store: Store, rank: int, step: int | None, phase: str | None) -> None:
    store.set(_key(rank), json.dumps([step, phase, time.time()]))


def last_seen(store: Store, ranks: Iterable[int]) -> list[Whereabouts]:
    """Of those that told; a rank that never did is not among them."""
    found = []
    for rank in ranks:
        if store.check([_key(rank)]):
            step, phase, told_s = json.loads(store.get(_key(rank)))
            found.append(Whereabouts(rank, step, phase, told_s))
    return found


def _key(rank: int) -> str:
    return f"trilens/at/{rank}"
