"""A process to be killed, and one that looks what is left. Run by the tests, never by hand.

crash_child.py write DIR ROWS    writes batches for ever; prints a number once that batch is durable
crash_child.py fill DIR          writes until the disk is full, then until it is not; see test_disk_full.py
crash_child.py count DIR         prints {batch number: rows} of what is stored, and the damage
crash_child.py tell DIR          tells records for ever; prints a number once those are on disk
crash_child.py recall DIR        prints {number: whether it lasts} of the records that are there
crash_child.py hold DIR          opens the store, prints a line, and waits for its input to close
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.errors import StoreReadOnly, TrilensError
from trilens.model.labels import make_labels
from trilens.model.life import MembershipInterval
from trilens.model.workload import Membership, PodKey, WorkloadKey
from trilens.store.archive import Archive
from trilens.store.damage import find_damage
from trilens.store.engine import Engine
from trilens.store.horizon import Horizon
from trilens.store.inserts import SampleBatch, SeriesRow, series_table
from trilens.store.migrations import migrate
from trilens.store.record_writer import RecordWriter
from trilens.store.rows import read_samples
from trilens.store.workloads import Span, WorkloadRecords
from trilens.store.writer import Writer, WriterOptions

if TYPE_CHECKING:
    import pyarrow as pa

T0 = 1_760_000_000_000
RECORDED = WorkloadKey("prod", "ml", "batch", "Job", "train", "uid-train")
ALWAYS = (-(1 << 60), 1 << 60)


def say(what: object) -> None:
    print(json.dumps(what), flush=True)


def batch(number: int, rows: int) -> tuple[SampleBatch, pa.Table]:
    """Batch k is the samples at T0 + k, of series of its own, on one of three days."""
    ids = np.arange(number * rows, (number + 1) * rows, dtype=np.uint64)
    t = np.full(rows, T0 + number + (number % 3) * 86_400_000)
    values = np.random.default_rng(number).random(rows)
    series = [SeriesRow(int(i), make_labels({"__name__": "m", "i": str(i)}), T0, T0) for i in ids[:5]]
    return SampleBatch(ids, ["m"], np.zeros(rows, np.int32), t, values), series_table(series)


def write(engine: Engine, rows: int) -> None:
    stored = read_samples(engine, None, None, *ALWAYS)
    number = int(stored.ids.max() // rows) + 1 if len(stored.ids) else 0
    writer = Writer(engine, Horizon())
    while True:
        writer.submit(*batch(number, rows))
        writer.durable().result()
        say(number)
        number += 1


def fill(engine: Engine) -> None:
    """Says {"acknowledged": n} when the disk is full, waits for a line of input, and goes on."""
    writer = Writer(engine, Horizon(), WriterOptions(flush_s=3600))
    acknowledged, number, rows = 0, 0, 20_000
    while True:
        try:
            writer.submit(*batch(number, rows))
            writer.durable().result()
            acknowledged = number + 1
            number += 1
        except StoreReadOnly:
            break
    refused = False
    try:  # at once: it tries again by itself, and merges may make room
        writer.submit(*batch(number + 1, rows))
    except StoreReadOnly:
        refused = True
    health = writer.health()
    readable = len(read_samples(engine, None, None, *ALWAYS).t) // rows
    say(
        {
            "acknowledged": acknowledged,
            "readable": readable,
            "refused": refused,
            "state": health.state,
            "reason": health.reason,
        }
    )
    sys.stdin.readline()
    with writer._changed:
        recovered = writer._changed.wait_for(lambda: writer._failure is None, timeout=60)
    writer.close()
    say({"recovered": recovered, "batches": len(read_samples(engine, None, None, *ALWAYS).t) / rows})


def count(engine: Engine) -> None:
    stored = read_samples(engine, None, None, *ALWAYS)
    numbers, rows = np.unique((stored.t - T0) % 86_400_000, return_counts=True)
    say(
        {
            "batches": dict(zip(numbers.tolist(), rows.tolist(), strict=True)),
            "series": sum(len(block.ids) for block in Archive(engine).recent(ALWAYS[0])),
            "damage": [str(damage) for damage in find_damage(engine)],
        }
    )


def pod(number: int, *, lasts: bool) -> MembershipInterval:
    membership = Membership(PodKey("prod", "ml", f"p-{number}", f"uid-{number}"), RECORDED)
    return MembershipInterval(membership, "n1", T0 + number, None if lasts else T0 + number + 1)


def recorded(engine: Engine) -> dict[int, bool]:
    writer = RecordWriter(engine)
    found = WorkloadRecords(engine, writer).during(Span(T0 - 1, T0 + 10**9))
    writer.close()
    members = [member for history in found for member in history.members]
    return {member.from_ms - T0: member.to_ms is None for member in members}


def tell(engine: Engine) -> None:
    """Record k begins, and k - 1, which is on disk, ends. A writer that was closed has written it all."""
    number = max(recorded(engine), default=-1) + 1
    while True:
        writer = RecordWriter(engine)
        records = WorkloadRecords(engine, writer)
        records.membership(pod(number, lasts=True))
        if number:
            records.membership(pod(number - 1, lasts=False))
        writer.close()
        say(number)
        number += 1


def main() -> int:
    what, directory = sys.argv[1:3]
    try:
        with Engine.open(directory) as engine:
            migrate(engine)
            if what == "write":
                write(engine, int(sys.argv[3]))
            elif what == "fill":
                fill(engine)
            elif what == "count":
                count(engine)
            elif what == "tell":
                tell(engine)
            elif what == "recall":
                say(recorded(engine))
            elif what == "hold":
                say("open")
                sys.stdin.read()
    except TrilensError as e:
        say({"error": type(e).__name__, "message": str(e)})
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
