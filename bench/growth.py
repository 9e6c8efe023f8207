"""What a GPU-hour leaves on disk: measured at two sizes of fleet, so that what every store has once falls
out, and drawn on in a straight line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from bench import ledger
from trilens.simulate.fleet import Fleet
from trilens.store.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.store import Store

SIZES: Final = (256, 1_024)  # GPUs, of whole nodes
SAMPLE_HOURS: Final = 4
RECORD_HOURS: Final = 24  # a day of jobs that come and go, booked
FLEETS: Final = (1_000, 10_000, 100_000)
_HOUR_S: Final = 3_600
_STEP_S: Final = 15
_DAY_H: Final = 24


class Kind(NamedTuple):
    """Tables that grow and go together."""

    name: str
    tables: tuple[str, ...]
    kept_days: int  # by the default of its setting
    hours: int  # over which it was measured


KINDS: Final = (
    Kind("raw samples, every 15 s", ("samples",), 15, SAMPLE_HOURS),
    Kind("5-minute rollups", ("samples_5m",), 90, SAMPLE_HOURS),
    Kind("1-hour rollups", ("samples_1h",), 400, SAMPLE_HOURS),
    Kind(
        "records: workloads, pods, GPUs, machines, runs, events, incidents",
        (
            "workloads",
            "memberships",
            "phases",
            "gpus",
            "gpu_bindings",
            "machines",
            "workload_owners",
            "runs",
            "run_processes",
            "run_positions",
            "run_curves",
            "run_shares",
            "run_checkpoints",
            "run_validations",
            "run_notes",
            "events",
            "findings",
            "incidents",
        ),
        400,
        RECORD_HOURS,
    ),
    Kind(
        "the ledger",
        (
            "ledger_rows",
            "ledger_bills",
            "ledger_hours",
            "ledger_days",
            "ledger_days_made",
            "ledger_day_pairs",
        ),
        1_095,
        RECORD_HOURS,
    ),
    Kind(
        "steps of ranks, and the samples of their batches",
        ("run_steps", "run_batches", "run_samples", "run_artifacts"),
        90,
        RECORD_HOURS,
    ),
)


class Growth(NamedTuple):
    """`table_bytes` of each size, by table; series are those of one GPU."""

    table_bytes: dict[int, dict[str, int]]
    series_per_gpu: float

    def per_gpu_hour(self, kind: Kind) -> float:
        """The slope between the two sizes."""
        small, large = SIZES
        return (self._bytes(kind, large) - self._bytes(kind, small)) / (large - small) / kind.hours

    @property
    def empty(self) -> list[str]:
        """Tables that this fleet has nothing in: what they would take is not known."""
        largest = self.table_bytes[SIZES[-1]]
        return [table for kind in KINDS for table in kind.tables if not largest.get(table)]

    def kept_bytes(self, kind: Kind, gpus: int) -> float:
        return self.per_gpu_hour(kind) * gpus * _DAY_H * kind.kept_days

    def _bytes(self, kind: Kind, gpus: int) -> int:
        return sum(self.table_bytes[gpus].get(table, 0) for table in kind.tables)


def run(out: Path) -> Growth:
    found: dict[int, dict[str, int]] = {}
    for gpus in SIZES:
        done = subprocess.run(
            [sys.executable, "-m", "bench.growth", str(out / f"growth-{gpus}"), str(gpus)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        found[gpus] = json.loads(done.stdout.splitlines()[-1])
        print(f"growth {gpus} GPUs {found[gpus]}", flush=True)
    fleet = Fleet(1)
    return Growth(found, fleet.series_per_node / fleet.gpus_per_node)


def shown(found: Growth) -> str:
    lines = [
        "## Growth",
        "",
        f"Disk of one replica, merged, at {SIZES[0]:,} and {SIZES[1]:,} GPUs with {found.series_per_gpu:.0f} "
        "series each; the slope between them is what a GPU-hour leaves, and "
        "*bytes a GPU-hour x GPUs x 24 x days kept* is what lies on disk.",
        "",
        "| | bytes a GPU-hour | days kept | " + " | ".join(f"{gpus:,} GPUs" for gpus in FLEETS) + " |",
        "| --- | --- | --- | " + " | ".join("---" for _ in FLEETS) + " |",
    ]
    for kind in KINDS:
        kept = " | ".join(_gb(found.kept_bytes(kind, gpus)) for gpus in FLEETS)
        lines.append(f"| {kind.name} | {found.per_gpu_hour(kind):,.1f} | {kind.kept_days} | {kept} |")
    totals = [_gb(sum(found.kept_bytes(kind, gpus) for kind in KINDS)) for gpus in FLEETS]
    lines.append(f"| **together** | | | {' | '.join(f'**{total}**' for total in totals)} |")
    if found.empty:
        lines += ["", f"Not counted, as this fleet has none of them: {', '.join(found.empty)}."]
    return "\n".join(lines)


def _gb(size: float) -> str:
    return f"{size / 1e12:,.1f} TB" if size >= 1e12 else f"{size / 1e9:,.1f} GB"


def measure(data: Path, gpus: int) -> dict[str, int]:
    """In a process of its own: one holds one directory."""
    ledger.fill(data / "records", gpus)
    ledger.day(data / "records")
    _fill_samples(data / "samples", gpus)
    return _sizes(data / "records") | {
        table: size for table, size in _sizes(data / "samples").items() if table.startswith("samples")
    }


def _fill_samples(data: Path, gpus: int) -> None:
    fleet = Fleet(gpus // 8)
    end_s = int(time.time()) // _HOUR_S * _HOUR_S - _HOUR_S
    series = fleet.series(job="fleet")
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        for piece in fleet.history(end_s - SAMPLE_HOURS * _HOUR_S, end_s, _STEP_S):
            rows, steps = piece.values.shape
            owner = np.repeat(np.arange(rows), steps)
            store.backfill(series, owner, np.tile(piece.t_ms, rows), piece.values.reshape(-1))
        store.roll_up()
    finally:
        store.close()


def _sizes(data: Path) -> dict[str, int]:
    with Engine.open(data) as engine:
        tables = engine.query_arrow(
            "SELECT name FROM system.tables WHERE database = currentDatabase() AND total_rows > 0"
        )["name"].to_pylist()
        for table in tables:
            engine.command(f"OPTIMIZE TABLE {table} FINAL")
        found = engine.query_arrow(
            "SELECT table, sum(bytes_on_disk) AS bytes FROM system.parts "
            "WHERE active AND database = currentDatabase() GROUP BY table"
        )
        return {row["table"]: row["bytes"] for row in found.to_pylist()}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]))))
