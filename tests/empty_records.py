"""The records of a server that was told of nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.ledger.source import no_signals
from trilens.model.ledger_facts import Facts, RunHistory
from trilens.serve.gpu_bindings import GpusNow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.source import Signals
    from trilens.model.run import RunId


class NoRecords:
    """Whatever is asked of workloads, GPUs, events or runs of trackers."""

    def _nothing(self, *_: Any, **__: Any) -> list[Any]:
        return []

    during = named = members_at = members_among = _nothing
    gpus_at = gpus_named = bindings_at = bindings_of = _nothing
    between = runs = open = latest = _nothing

    def held_back(self) -> dict[str, Any]:
        return {}


class NobodyLooks:
    """At which GPUs there are now."""

    now = GpusNow()
    held_by = None


class NoReceivers:
    """Nobody is told of anything."""

    def reports(self) -> list[Any]:
        return []


class NoFacts:
    def records(self, from_ms: int, to_ms: int, *, guard: Any = None) -> Facts:
        return Facts(from_ms, to_ms)

    programs = records

    def histories(self, runs: Sequence[RunId], *, guard: Any = None) -> dict[RunId, RunHistory]:
        return {run: RunHistory((), (), ()) for run in runs}

    def repeating(self, runs: Sequence[RunId], *, guard: Any = None) -> dict[RunId, int]:
        return {}


class NoSignals:
    def signals(self, from_ms: int, to_ms: int) -> Signals:
        return no_signals(from_ms)

    serving = signals
