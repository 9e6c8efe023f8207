"""Damage on disk: the store opens, serves the rest, and says what is missing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.store.damage import Damage, find_damage
from trilens.store.engine import Engine
from trilens.store.horizon import Horizon
from trilens.store.inserts import SampleBatch, insert_samples, samples_table
from trilens.store.migrations import migrate
from trilens.store.rows import read_samples
from trilens.store.schema import DAY_MS

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_760_054_400_000  # midnight
ALWAYS = (-(1 << 60), 1 << 60)
DAYS = 4
ROWS = 20_000


def filled(directory: Path) -> list[Path]:
    """A store with one part a day; returns where the parts lie."""
    with Engine.open(directory) as engine:
        migrate(engine)
        engine.command("SYSTEM STOP MERGES")
        for day in range(DAYS):
            batch = SampleBatch(
                np.arange(ROWS, dtype=np.uint64),
                ["m"],
                np.zeros(ROWS, np.int32),
                np.full(ROWS, T0 + day * DAY_MS + 1000),
                np.random.default_rng(day).random(ROWS),
            )
            insert_samples(engine, Horizon(), samples_table(batch))
        return parts(engine)


def parts(engine: Engine) -> list[Path]:
    from pathlib import Path

    found = engine.query_arrow(
        "SELECT path FROM system.parts WHERE table = 'samples' AND active AND database = currentDatabase() "
        "ORDER BY name"
    )
    return [Path(path) for path in found["path"].to_pylist()]


def days_left(engine: Engine) -> list[int]:
    rows = read_samples(engine, ["m"], None, *ALWAYS)
    days, counts = np.unique((rows.t - T0) // DAY_MS, return_counts=True)
    assert (counts == ROWS).all()
    return days.tolist()


def cut(file: Path, rng: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(len(content))])


@pytest.mark.parametrize("seed", range(6))
def test_a_torn_file_costs_its_part_only(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    victim = filled(tmp_path)[1]
    files = sorted(f for f in victim.iterdir() if f.stat().st_size)
    file = files[seed * 5 % len(files)]
    if rng.random() < 0.3:
        file.unlink()
    else:
        cut(file, rng)
    with Engine.open(tmp_path) as engine:
        migrate(engine)
        left = days_left(engine)
        damage = find_damage(engine)
    # A file that the engine can do without, or make again, costs nothing at all.
    assert left in ([0, 2, 3], [0, 1, 2, 3]), file.name
    if left == [0, 2, 3]:
        assert [(d.table, d.from_ms is not None) for d in damage] == [("samples", True)]
        low, high = damage[0].from_ms, damage[0].to_ms
        assert low is not None and high is not None
        assert T0 + DAY_MS <= low <= high <= T0 + 2 * DAY_MS


def test_what_was_lost_is_named(tmp_path: Path) -> None:
    victim = filled(tmp_path)[2]
    (victim / "data.bin").write_bytes(b"")
    with Engine.open(tmp_path) as engine:
        migrate(engine)
        (damage,) = find_damage(engine)
        assert days_left(engine) == [0, 1, 3]
        # The store takes writes for that day as before.
        insert_samples(engine, Horizon(), samples_table(SampleBatch(
            np.arange(ROWS, dtype=np.uint64), ["m"], np.zeros(ROWS, np.int32),
            np.full(ROWS, T0 + 2 * DAY_MS), np.zeros(ROWS))))  # fmt: skip
        assert days_left(engine) == [0, 1, 2, 3]
    at = T0 + 2 * DAY_MS + 1000
    assert (damage.rows, damage.from_ms, damage.to_ms) == (ROWS, at, at)
    assert "table samples lost 20,000 rows between 2025-10-12T00:00:01+00:00" in str(damage)


def test_every_part_torn_at_once_still_opens(tmp_path: Path) -> None:
    for part in filled(tmp_path):
        (part / "checksums.txt").write_text("nonsense")
        (part / "data.bin").write_bytes(b"\0")
    with Engine.open(tmp_path) as engine:
        migrate(engine)
        assert days_left(engine) == []
        assert len(find_damage(engine)) == DAYS


def test_bytes_that_went_bad_are_found_when_read(tmp_path: Path) -> None:
    """The file has its size, so only the checksum inside tells, and only a read looks at it."""
    victim = filled(tmp_path)[0]
    content = bytearray((victim / "data.bin").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (victim / "data.bin").write_bytes(content)
    with Engine.open(tmp_path) as engine:
        migrate(engine)
        assert find_damage(engine) == []
        assert days_left(engine) == [1, 2, 3]
        assert [(d.table, d.rows) for d in find_damage(engine)] == [("samples", ROWS)]
    with Engine.open(tmp_path) as engine:
        assert len(find_damage(engine)) == 1, "the report outlives a restart"


def test_a_part_that_says_nothing() -> None:
    damage = Damage("series", "broken_all_1_1_0", "somewhere", 5, None, None, None)
    assert str(damage) == (
        "table series lost an unknown number of rows: part broken_all_1_1_0 is damaged, see somewhere"
    )


def test_no_damage(new_engine: Engine) -> None:
    assert find_damage(new_engine) == []
