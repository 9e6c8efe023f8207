"""What of torch.distributed the program has set up. Nothing is imported that it has not loaded itself."""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple, Protocol

_SPARE_FILES: Final = 512


class Store(Protocol):
    """The key-value store through which the ranks of a job found each other: torch's TCPStore or its like."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...

    def add(self, key: str, amount: int) -> int: ...

    def check(self, keys: list[str]) -> bool: ...

    def delete_key(self, key: str) -> bool: ...


class Members(NamedTuple):
    """A process group, as this rank sees it. Ranks are those of the whole job."""

    name: str
    ranks: tuple[int, ...]
    me: int
    backend: str


def torch_distributed() -> Any | None:
    """torch.distributed, where the program has begun to use it."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def members_of(dist: Any, group: Any | None) -> Members | None:
    """None where this rank is not one of them."""
    group = dist.group.WORLD if group is None else group
    if dist.get_rank(group) < 0:
        return None
    return Members(
        name=str(group.group_name),
        ranks=tuple(dist.get_process_group_ranks(group)),
        me=dist.get_rank(),
        backend=str(dist.get_backend(group)),
    )


def job_store(dist: Any) -> Store | None:
    """The store of the default group; backends without one (MPI) have none."""
    try:
        store: Store = dist.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):
        return None
    return store


def own_connection(store: Any, world_size: int) -> Store | None:
    """A second connection to the same store, so that nobody waits for the program's or makes it wait.

    None where there is no such thing, or where one more connection a rank might be too many for whoever holds
    the store: all arrive at one process, and machines of one job allow alike many open files.
    """
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and 2 * world_size + _SPARE_FILES > allowed:
        return None
    if not _lies_behind_tcp(store):
        return None
    try:
        connection: Store = store.clone()  # torch 2.8 and later
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return connection


def _lies_behind_tcp(store: Any) -> bool:
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    return type(store).__name__ == "TCPStore"
