"""torch's monitored barrier, over connections of its own.

A monitored barrier that times out closes the connections of its process group, and the program could not use
the group any more although the rank was only late. So it is held on a gloo group of our own. That one is made
when all ranks have just met (making it needs all of them), and given up together when a barrier on it fails.
"""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilens.sdk.distributed.process_group import Members, Store

_CONNECT_S: Final = 4.0
_NAMED: Final = re.compile(
    r"Ranks ([\d, ]+) failed to pass monitoredBarrier"
)  # said by the group's first rank


class MonitoredBarrier:
    """`made_at` is the meeting at which it was made: the same on all ranks."""

    def __init__(self, dist: Any, store: Store, members: Members, made_at: int) -> None:
        prefix = f"trilens/barrier/{members.name}/monitored/{made_at}"
        self._given_up = f"{prefix}/given-up"
        self._store = store
        self._ranks = members.ranks
        self._group: Any = None
        try:
            self._group = dist.ProcessGroupGloo(
                dist.PrefixStore(prefix, store),
                members.ranks.index(members.me),
                len(members.ranks),
                datetime.timedelta(seconds=_CONNECT_S),
            )
        except RuntimeError:  # a rank died just now, or they cannot all reach each other
            self._give_up()

    def usable(self) -> bool:
        """Whether no rank has given it up."""
        return self._group is not None and not self._store.check([self._given_up])

    def hold(self, timeout_s: float) -> tuple[int, ...] | None:
        """() when all came, the missing ones where it names them, None where it failed without naming any."""
        try:
            self._group.monitored_barrier(datetime.timedelta(seconds=timeout_s), True)
        except RuntimeError as error:
            self._give_up()
            named = _NAMED.search(str(error))
            return tuple(self._ranks[int(rank)] for rank in named[1].split(",")) if named else None
        return ()

    def _give_up(self) -> None:
        self._group = None
        self._store.set(self._given_up, "1")
