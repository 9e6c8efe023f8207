"""Runs that W&B keeps as files, offline or beside what it sends: followed while they grow.

W&B's own reader of these files is in its Go program, not in its Python package; the messages are the few
fields of `wandb_internal.proto` that are read here.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from trilens.collect.protobuf_messages import Description, message_classes
from trilens.collect.trackers.wandb_log import HEADER, records
from trilens.model.errors import TrackerError
from trilens.model.run import Tracker
from trilens.model.tracked_run import MetricPoint, TrackedRun, TrackerChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

SYSTEM: Final = "wandb"
_FILES: Final = "run-*.wandb"
_READ_BYTES: Final = 4 << 20
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


class WandbFolder:
    """A folder in which W&B keeps runs: usually `wandb` beside the program."""

    system = SYSTEM

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)
        self._known: dict[str, TrackedRun] = {}  # by the file, as far as it was read

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]:
        """`cursors` says how far each run's file was read, in bytes."""
        if not self._folder.is_dir():
            raise TrackerError(f"there is no folder {self._folder}")
        for file in sorted(self._folder.rglob(_FILES)):
            name = file.stem.removeprefix("run-")
            try:
                yield from self._run(file, name, int(cursors.get(name, 0)))
            except (TrackerError, OSError) as e:
                log.warning("a W&B file is passed over", extra={"file": str(file), "error": str(e)})

    def _run(self, file: Path, name: str, kept: int) -> Iterator[TrackerChange]:
        # What a run is stands at the beginning of its file: after a restart it is read again, the points not.
        at = kept if str(file) in self._known else len(HEADER)
        run = self._known.get(str(file), TrackedRun(Tracker(SYSTEM, name, self.where), state="running"))
        while True:
            found, after = _read(file, at)
            if after == at:
                return
            points: list[MetricPoint] = []
            for record, end in found:
                run, told = _taken(run, record)
                if end > kept:
                    points += told
            at = after
            self._known[str(file)] = run
            if after > kept:
                yield TrackerChange(run, tuple(points), str(after))


def _read(file: Path, at: int) -> tuple[list[tuple[Any, int]], int]:
    size = _READ_BYTES
    with file.open("rb") as stream:
        start = stream.read(len(HEADER))
        if start != HEADER:
            if HEADER.startswith(start):
                return [], at  # it has just been made
            raise TrackerError("it does not begin as a file of W&B does")
        while True:
            stream.seek(at)
            data = stream.read(size)
            whole = [*records(data, at=at)]
            if whole or len(data) < size:
                break
            size *= 2
    try:
        return [(_Record.FromString(record), end) for record, end in whole], whole[-1][1] if whole else at
    except DecodeError as e:
        raise TrackerError(f"a record that W&B does not write: {e}") from e


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
        tracker=run.tracker._replace(run=told.run_id or run.tracker.run),
        experiment=told.project or run.experiment,
        name=told.display_name or run.name,
        started_ms=start.seconds * 1000 + start.nanos // 1_000_000 if start.seconds else run.started_ms,
        params={**run.params, **_params(told.config.update)},
        tags={**run.tags, **dict.fromkeys(told.tags, "")},
    )


def _grown(run: TrackedRun, history: Any) -> tuple[TrackedRun, list[MetricPoint]]:
    numbers = dict(_numbers(history.item))
    seconds = numbers.get("_timestamp")
    if seconds is None or not math.isfinite(seconds):
        return run, []
    t_ms = round(seconds * 1000)
    step = round(numbers["_step"]) if "_step" in numbers else history.step.num
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
    """What is a number. W&B writes those that JSON has not as NaN and Infinity, with or without quotes."""
    for item in items:
        try:
            value = json.loads(item.value_json)
        except ValueError:
            continue
        if value in ("NaN", "Infinity", "-Infinity"):
            value = float(value)
        if (name := _name(item)) and isinstance(value, int | float) and not isinstance(value, bool):
            yield name, float(value)


def _name(item: Any) -> str:
    return ".".join(item.nested_key) or str(item.key)
