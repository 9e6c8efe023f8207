"""The records of a server that was told of nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.ledger.source import no_signals
from trilens.model.ledger_facts import Facts, RunHistory
from trilens.serve.backup_keeper import BackupKeeper
from trilens.serve.gpu_bindings import GpusNow
from trilens.settings.storage import StorageSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.source import Signals
    from trilens.model.finding import Finding
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId
    from trilens.model.workload import GpuUuid


class NoRecords:
    """Whatever is asked of workloads, GPUs, events or runs of trackers."""

    def _nothing(self, *_: Any, **__: Any) -> list[Any]:
        return []

    during = named = members_at = members_among = _nothing
    gpus_at = gpus_named = bindings_at = bindings_of = _nothing
    between = runs = open = latest = owned = _nothing

    def held_back(self) -> dict[str, Any]:
        return {}


class NobodyLooks:
    """At which GPUs there are now."""

    now = GpusNow()
    held_by = None


class NoFaults:
    """Every GPU is well."""

    def at(self, now_ms: int, guard: QueryGuard | None = None) -> dict[GpuUuid, Finding]:
        return {}


class NoReceivers:
    """Nobody is told of anything."""

    def reports(self) -> list[Any]:
        return []


def no_backups() -> BackupKeeper:
    """Where the tables are on a ClickHouse server."""

    def never(*_: Any) -> Any:
        raise AssertionError("no backup is made here")

    return BackupKeeper(never, StorageSettings(url="http://clickhouse:8123/trilens"))


class NoFacts:
    def records(self, from_ms: int, to_ms: int, *, guard: Any = None) -> Facts:
        return Facts(from_ms, to_ms)

    programs = records

    def histories(self, runs: Sequence[RunId], *, guard: Any = None) -> dict[RunId, RunHistory]:
        return {run: RunHistory((), (), ()) for run in runs}

    def repeating(self, runs: Sequence[RunId], *, guard: Any = None) -> dict[RunId, int]:
        return {}


class NoSignals:
    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        return no_signals(from_ms)

    serving = signals
