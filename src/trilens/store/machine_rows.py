"""Machines as rows of their table, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from trilens.store.workload_rows import Row

MACHINES: Final = Table(
    "machines",
    ("cluster", "node", "from_ms"),
    (
        "to_ms",
        "instance_type",
        "region",
        "zone",
        "purchase",
        "provider",
        "gpu_model",
        "gpu_count",
        "cpu_milli",
        "memory_bytes",
        "storage_bytes",
        "state",
        "reason",
    ),
)


def machine_row(interval: MachineInterval) -> Row:
    machine = interval.machine
    return {
        "cluster": machine.cluster,
        "node": machine.node,
        "from_ms": interval.from_ms,
        "to_ms": interval.to_ms,
        "instance_type": machine.instance_type,
        "region": machine.region,
        "zone": machine.zone,
        "purchase": machine.purchase,
        "provider": machine.provider,
        "gpu_model": machine.gpu_model,
        "gpu_count": machine.gpus,
        "cpu_milli": None if machine.cpus is None else round(machine.cpus * 1000),
        "memory_bytes": machine.memory_bytes,
        "storage_bytes": machine.storage_bytes,
        "state": machine.state.value,
        "reason": machine.reason,
    }


def machine_of(row: Row) -> MachineInterval:
    machine = Machine(
        row["cluster"],
        row["node"],
        row["instance_type"],
        row["region"],
        row["zone"],
        row["purchase"],
        row["provider"],
        row["gpu_model"],
        row["gpu_count"],
        None if row["cpu_milli"] is None else row["cpu_milli"] / 1000,
        row["memory_bytes"],
        row["storage_bytes"],
        MachineState(row["state"]),
        row["reason"],
    )
    return MachineInterval(machine, row["from_ms"], row["to_ms"])
