"""What memory had noted and the disk had not when the process was killed: nothing is lost by it."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING

import numpy as np
from coming_and_going import BEGIN, DAY, HOUR, append, evict, open_store, power, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, B = power("0"), power("1")


def killed(work: Callable[[Path], None], directory: Path) -> None:
    """`work` in a process of its own, which then ends without any goodbye."""
    process = multiprocessing.get_context("spawn").Process(target=_work_and_die, args=(work, directory))
    process.start()
    process.join(120)
    assert process.exitcode == 9


def _work_and_die(work: Callable[[Path], None], directory: Path) -> None:
    work(directory)
    os._exit(9)


def come_back(directory: Path) -> None:
    store = open_store(directory)
    for k in range(4):
        append(store, BEGIN + k * 15_000, {A: float(k)})
    append(store, BEGIN + 5 * DAY, {B: 1.0})
    assert evict(store) == 1
    append(store, BEGIN + 5 * DAY + 15_000, {A: 100.0, B: 2.0})
    store.durable().result()


def test_a_series_that_had_just_come_back_keeps_its_past(tmp_path: Path) -> None:
    killed(come_back, tmp_path / "data")
    open_store(tmp_path / "data").close()  # saves what it knows of the series
    store = open_store(tmp_path / "data")
    try:
        store._engine.command("OPTIMIZE TABLE activity FINAL")
        store._engine.command("OPTIMIZE TABLE series FINAL")
    finally:
        store.close()
    store = open_store(tmp_path / "data")
    try:
        assert [v for _, v in read(store, BEGIN - 1, BEGIN + HOUR)[A]] == [0, 1, 2, 3]
    finally:
        store.close()


def leave_a_sample_unwritten(directory: Path) -> None:
    store = open_store(directory)
    append(store, BEGIN, {A: 1.0})
    append(store, BEGIN + 5 * HOUR, {B: 1.0})
    store.durable().result()
    store._upkeep.save_activity()
    append(store, BEGIN + 5 * HOUR + 1_000, {A: 2.0})  # waits to be written, and activity already knows it
    store._upkeep.save_activity()


def test_a_sample_that_was_not_written_is_taken_when_it_is_sent_again(tmp_path: Path) -> None:
    killed(leave_a_sample_unwritten, tmp_path / "data")
    store = open_store(tmp_path / "data")
    try:
        handle = np.array([store.series(A)])
        again = store.append(handle, np.array([BEGIN + 5 * HOUR + 1_000]), np.array([2.0]))
        assert again.accepted == 1
        assert [v for _, v in read(store, BEGIN - 1, BEGIN + 6 * HOUR)[A]] == [1, 2]
    finally:
        store.close()
