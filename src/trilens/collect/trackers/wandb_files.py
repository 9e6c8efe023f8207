"""Runs that W&B keeps as files, offline or beside what it sends: followed while they grow.

W&B's own reader of these files is in its Go program, not in its Python package; the messages are the few
fields of `wandb_internal.proto` that are read here.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from trilens.collect.protobuf_messages import Description, message_classes
from trilens.collect.trackers.passed_over import PassedOver
from trilens.collect.trackers.wandb_log import HEADER, records
from trilens.collect.trackers.wandb_values import number, step_of
from trilens.model.errors import TrackerError
from trilens.model.run import Tracker
from trilens.model.tracked_run import MetricPoint, TrackedRun, TrackerChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SYSTEM: Final = "wandb"
_FILES: Final = "run-*.wandb"
_READ_BYTES: Final = 4 << 20
_KEPT_AFTER_S: Final = 86_400.0  # in memory, since its files last changed
_MESSAGES: Final[Description] = {
    "Item": {"key": (1, "string"), "nested_key": (2, "[string]"), "value_json": (16, "string")},
    "Step": {"num": (1, "int64")},
    "History": {"item": (1, "[Item]"), "step": (2, "Step")},
    "Updates": {"update": (1, "[Item]")},
    "Time": {"seconds": (1, "int64"), "nanos": (2, "int32")},
    "Run": {
        "run_id": (1, "string"),
        "entity": (2, "string"),
        "project": (3, "string"),
        "config": (4, "Updates"),
        "group": (6, "string"),
        "display_name": (8, "string"),
        "tags": (10, "[string]"),
        "host": (13, "string"),
        "start_time": (17, "Time"),
    },
    "Exit": {"exit_code": (1, "int32")},
    "Record": {
        "history": (2, "History"),
        "summary": (3, "Updates"),
        "config": (5, "Updates"),
        "run": (17, "Run"),
        "exit": (18, "Exit"),
    },
}
_Record: Final = message_classes("trilens.wandb", _MESSAGES, presence=True)["Record"]


_Files = dict[Path, os.stat_result]


class _Piece(NamedTuple):
    """What was read of a file, with where each record ends, and what is wrong behind it."""

    records: list[tuple[Any, int]]
    trouble: str | None = None


class WandbFolder:
    """A folder in which W&B keeps runs: usually `wandb` beside the program."""

    system = SYSTEM
    in_pieces = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)
        self._known: dict[str, TrackedRun] = {}  # by its id, as far as its files were read
        self._reached: dict[Path, int] = {}
        self._sizes: dict[Path, int] = {}  # of files that were read as far as they went
        self._passed_over = PassedOver("a file of W&B")

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]:
        """`cursors` says how far each run was read: bytes of each of its files. A run that was resumed has
        several, of the same name in folders that are named by time."""
        if not self._folder.is_dir():
            raise TrackerError(f"there is no folder {self._folder}")
        runs: dict[str, _Files] = {}
        for file in sorted(self._folder.rglob(_FILES)):
            with suppress(OSError):  # it has just gone
                found = file.stat()
                if stat.S_ISREG(found.st_mode):
                    runs.setdefault(file.stem.removeprefix("run-"), {})[file] = found
        self._let_go(runs)
        for run, files in runs.items():
            yield from self._run(run, files, json.loads(cursors.get(run, "{}")))

    def _let_go(self, runs: Mapping[str, _Files]) -> None:
        """Of what is not there any more, and of what runs were that have not changed for long: should one go
        on, it is read again."""
        files = {file for held in runs.values() for file in held}
        self._reached = {file: at for file, at in self._reached.items() if file in files}
        self._sizes = {file: size for file, size in self._sizes.items() if file in files}
        before_s = time.time() - _KEPT_AFTER_S
        for name in [*self._known]:
            held = runs.get(name, {})
            # One that is damaged is read in every pass: what is known of it saves reading all of it.
            is_read = all(self._sizes.get(file) == found.st_size for file, found in held.items())
            if is_read and all(found.st_mtime < before_s for found in held.values()):
                del self._known[name]
                for file in held:
                    self._reached.pop(file, None)

    def _run(self, name: str, files: _Files, kept: dict[str, int]) -> Iterator[TrackerChange]:
        # What a run is stands at the beginning of its files: after a restart they are read again, the points
        # not; and only where there is something new.
        new = [
            file
            for file, found in files.items()
            if self._sizes.get(file, kept.get(self._place(file))) != found.st_size
        ]
        if new and name not in self._known:
            new = [*files]
        for file in new:
            for change in self._file(name, file, files[file].st_size, kept):
                kept = json.loads(change.cursor)
                yield change

    def _file(self, name: str, file: Path, size: int, kept: dict[str, int]) -> Iterator[TrackerChange]:
        at, place = self._reached.get(file, len(HEADER)), self._place(file)
        run = self._known.get(name, TrackedRun(Tracker(SYSTEM, name, self.where), state="running"))
        while True:
            found, trouble = _read(file, at)
            points: list[MetricPoint] = []
            for record, end in found:
                run, told = _taken(run, record)
                at = end
                if end > kept.get(place, 0):
                    points += told
            if found and at > kept.get(place, 0):
                kept = {**kept, place: at}
                yield TrackerChange(run, tuple(points), json.dumps(kept))
            self._reached[file], self._known[name] = at, run  # once it was taken: else it is told again
            if trouble is not None:
                self._passed_over.say(str(file), trouble)
                return
            if not found:
                self._sizes[file] = size
                return

    def _place(self, file: Path) -> str:
        return str(file.relative_to(self._folder))


def _read(file: Path, at: int) -> _Piece:
    size = _READ_BYTES
    try:
        with file.open("rb") as stream:
            start = stream.read(len(HEADER))
            if start != HEADER:  # else it has just been made
                return _Piece([], None if HEADER.startswith(start) else "it does not begin as one")
            while True:
                stream.seek(at)
                data = stream.read(size)
                piece = _decoded(data, at)
                if piece.records or piece.trouble is not None or len(data) < size:
                    return piece
                size *= 2
    except OSError as e:
        return _Piece([], str(e))


def _decoded(data: bytes, at: int) -> _Piece:
    found: list[tuple[Any, int]] = []
    try:
        for record, end in records(data, at=at):
            found.append((_Record.FromString(record), end))
    except TrackerError as e:
        return _Piece(found, str(e))
    except DecodeError as e:
        return _Piece(found, f"a record that W&B does not write: {e}")
    return _Piece(found)


def _taken(run: TrackedRun, record: Any) -> tuple[TrackedRun, list[MetricPoint]]:
    if record.HasField("run"):
        return _described(run, record.run), []
    if record.HasField("config"):
        return replace(run, params={**run.params, **_params(record.config.update)}), []
    if record.HasField("exit"):
        return replace(run, state="finished" if record.exit.exit_code == 0 else "failed"), []
    if record.HasField("summary"):
        told = {name: number for name, number in _numbers(record.summary.update) if name[0] != "_"}
        return replace(run, metrics={**run.metrics, **told}), []
    if record.HasField("history"):
        return _grown(run, record.history)
    return run, []


def _described(run: TrackedRun, told: Any) -> TrackedRun:
    start = told.start_time
    return replace(
        run,
        experiment=told.project or run.experiment,
        name=told.display_name or run.name,
        state="running",  # also of one that had ended, and goes on in another file
        started_ms=run.started_ms
        if run.started_ms is not None or not start.seconds
        else start.seconds * 1000 + start.nanos // 1_000_000,
        params={**run.params, **_params(told.config.update)},
        tags={**run.tags, **dict.fromkeys(told.tags, "")},
    )


def _grown(run: TrackedRun, history: Any) -> tuple[TrackedRun, list[MetricPoint]]:
    numbers = dict(_numbers(history.item))
    seconds = numbers.get("_timestamp")
    if seconds is None or not math.isfinite(seconds):
        return run, []
    t_ms = round(seconds * 1000)
    told = step_of(numbers.get("_step"))
    step = told if told is not None else history.step.num
    points = [MetricPoint(name, t_ms, number, step) for name, number in numbers.items() if name[0] != "_"]
    metrics = {**run.metrics, **{point.metric: point.value for point in points}}
    # W&B has no record of the end but the exit, which has no time: the last that was logged stands for it.
    return replace(run, metrics=metrics, step=max(step, run.step or 0), ended_ms=t_ms), points


def _params(items: Iterable[Any]) -> dict[str, str]:
    named = ((_name(item), item.value_json) for item in items)
    return {name: _plain(value) for name, value in named if name and not name.startswith("_wandb")}


def _plain(value_json: str) -> str:
    """A text without its quotes; anything else as it is written."""
    try:
        value = json.loads(value_json)
    except ValueError:
        return value_json
    return value if isinstance(value, str) else value_json


def _numbers(items: Iterable[Any]) -> Iterator[tuple[str, float]]:
    """What is a number. W&B writes those that JSON has not with or without quotes."""
    for item in items:
        try:
            value = json.loads(item.value_json)
        except ValueError:
            continue
        name, told = _name(item), number(value)
        if name and told is not None:
            yield name, told


def _name(item: Any) -> str:
    return ".".join(item.nested_key) or str(item.key)
