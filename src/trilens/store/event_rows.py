"""Events as rows of their table, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.workload import GpuUuid
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from trilens.store.workload_rows import Row

_VICTIMS: Final = msgspec.json.Decoder(tuple[Victim, ...])

EVENTS: Final = Table(
    "events",
    ("node", "id", "cluster"),
    (
        "t_ms",
        "kind",
        "code",
        "description",
        "title",
        "asks",
        "uuid",
        "gpu",
        "pci",
        "pid",
        "process",
        "process_rank",
        "victims",
        "ledger",
        "number",
    ),
    over="t_ms",
)


def event_row(event: EventRecord) -> Row:
    return {
        "node": event.node,
        "id": event.id,
        "cluster": event.cluster,
        "t_ms": event.t_ms,
        "kind": event.kind.value,
        "code": event.code,
        "description": event.text,
        "title": event.title,
        "asks": event.asks,
        "uuid": event.uuid,
        "gpu": event.gpu,
        "pci": event.pci,
        "pid": event.pid,
        "process": event.process,
        "process_rank": event.rank,
        "victims": msgspec.json.encode(event.victims).decode(),
        "ledger": event.ledger,
        "number": event.number,
    }


def event_of(row: Row) -> EventRecord:
    return EventRecord(
        row["node"],
        row["id"],
        row["t_ms"],
        EventKind(row["kind"]),
        row["code"],
        row["description"],
        row["title"],
        row["asks"],
        GpuUuid(row["uuid"]) if row["uuid"] is not None else None,
        row["gpu"],
        row["pci"],
        row["pid"],
        row["process"],
        row["process_rank"],
        _VICTIMS.decode(row["victims"]),
        row["ledger"],
        row["number"],
        cluster=row["cluster"],
    )
