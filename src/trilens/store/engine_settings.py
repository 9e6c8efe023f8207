"""What the engine is told about memory, threads and formats: the whole of it, and each connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MIB: Final = 1 << 20
_MERGES_NICE: Final = 5  # who waits for an answer has three times the share of a core that tidying has


@dataclass(frozen=True, slots=True)
class EngineOptions:
    memory_bytes: int = 1024 * _MIB  # embedded only: all that reads, writes and merges may take together
    query_memory_bytes: int = 768 * _MIB
    mark_cache_bytes: int = 64 * _MIB
    threads: int = 2  # of one query
    merge_threads: int = 2
    readers: int = 4  # reads side by side; more wait
    query_timeout_s: float = 120.0  # of a query without a guard of its own
    username: str | None = None
    password: str | None = None
    cluster: str | None = None  # a server only: the name of the ClickHouse cluster that it is part of
    insert_quorum: str = "auto"  # on how many replicas an insert is when it is answered: a number, or most
    may_write: Callable[[], bool] | None = None  # None: always; see serve/replicas
    backup_dir: Path | None = None  # embedded only: where backups are written to, or read from


def server_settings(options: EngineOptions) -> dict[str, str | int]:
    """Of the whole embedded engine, whose defaults are for a machine of its own (90 % of all memory)."""
    backup_dir = options.backup_dir
    backups = {"backups.allowed_path": str(backup_dir.resolve())} if backup_dir is not None else {}
    return {
        **backups,
        "backup_threads": options.merge_threads,
        "max_server_memory_usage": options.memory_bytes,
        "mark_cache_size": options.mark_cache_bytes,
        "uncompressed_cache_size": 0,
        "query_condition_cache_size": 0,  # spans and ids change with each question; it would fill for hours
        "background_pool_size": options.merge_threads,
        "background_merges_mutations_concurrency_ratio": 1,
        "os_threads_nice_value_merge_mutate": _MERGES_NICE,
        "memory_worker_period_ms": 1000,  # it would look twenty times a second how much memory is used
    }


def session_settings(options: EngineOptions) -> dict[str, str | int]:
    return {
        "max_threads": options.threads,
        "max_query_size": 256 * _MIB,  # thousands of series are asked for by their ids, written out
        "max_insert_threads": 1,  # so that one insert is one part of a partition, seen whole or not at all
        "max_partitions_per_insert_block": 0,  # a backfill may span many days
        "output_format_arrow_compression_method": "none",  # in memory, lz4 doubles the time of a large read
        "output_format_arrow_string_as_string": 1,
    }
