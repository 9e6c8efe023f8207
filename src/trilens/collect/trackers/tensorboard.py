"""TensorBoard's event files: a folder with such files is a run, followed while they grow.

Scalars are read, as old writers put them (`simple_value`) and as new ones do (a tensor of one number).
Images, graphs, histograms and texts are passed over. The program need not have TensorBoard, nor need we.
"""

from __future__ import annotations

import json
import math
import os
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from trilens.collect.protobuf_messages import Description, message_classes
from trilens.collect.trackers.passed_over import PassedOver
from trilens.collect.trackers.tfrecord import records
from trilens.model.errors import TrackerError
from trilens.model.run import Tracker
from trilens.model.tracked_run import MetricPoint, TrackedRun, TrackerChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SYSTEM: Final = "tensorboard"
_FILES: Final = "*tfevents*"
_READ_BYTES: Final = 4 << 20  # of one file at a time
_MESSAGES: Final[Description] = {
    "Dim": {"size": (1, "int64")},
    "Shape": {"dim": (2, "[Dim]")},
    "Tensor": {
        "dtype": (1, "enum"),
        "shape": (2, "Shape"),
        "content": (4, "bytes"),
        "floats": (5, "[float]"),
        "doubles": (6, "[double]"),
        "ints": (7, "[int32]"),
        "longs": (10, "[int64]"),
    },
    "Value": {"tag": (1, "string"), "simple_value": (2, "float"), "tensor": (8, "Tensor")},
    "Summary": {"value": (1, "[Value]")},
    "Event": {"wall_time": (1, "double"), "step": (2, "int64"), "summary": (5, "Summary")},
}
_NUMBERS: Final = {1: "f", 2: "d", 3: "i", 9: "q"}  # how a tensor's bytes are to be read, by its type


class _Piece(NamedTuple):
    """What was read of a file, how far that reached, and what is wrong behind it."""

    points: list[MetricPoint]
    at: int
    trouble: str | None = None


class TensorBoardFolder:
    """One folder that holds runs, at any depth."""

    system = SYSTEM
    in_pieces = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)
        self._passed_over = PassedOver("an event file")

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]:
        """`cursors` says how far each run was read: bytes of each of its files."""
        if not self._folder.is_dir():
            raise TrackerError(f"there is no folder {self._folder}")
        runs: dict[Path, list[Path]] = {}
        for file in sorted(self._folder.rglob(_FILES)):
            if file.is_file():
                runs.setdefault(file.parent, []).append(file)
        for folder, files in runs.items():
            name = str(folder.relative_to(self._folder))
            yield from self._run(name, files, cursors.get(name))

    def _run(self, name: str, files: list[Path], cursor: str | None) -> Iterator[TrackerChange]:
        reached: dict[str, int] = json.loads(cursor) if cursor else {}
        for file in files:
            while True:
                before = reached.get(file.name, 0)
                points, at, trouble = _read(file, before)
                if at != before:
                    reached[file.name] = at
                    yield TrackerChange(self._tracked(name, points), tuple(points), json.dumps(reached))
                if trouble is not None:
                    self._passed_over.say(str(file), trouble)
                if at == before or trouble is not None:
                    break

    def _tracked(self, name: str, points: list[MetricPoint]) -> TrackedRun:
        return TrackedRun(
            Tracker(SYSTEM, name, self.where),
            experiment=self._folder.name,
            name=name if name != "." else self._folder.name,
            started_ms=min((point.t_ms for point in points), default=None),
            metrics={point.metric: point.value for point in points},
            step=max((point.step for point in points if point.step is not None), default=None),
        )


def _read(file: Path, at: int) -> _Piece:
    """What lies behind `at`, as much as is read at once."""
    size = _READ_BYTES
    try:
        with file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size < at:
                at = 0  # another file under its name
            while True:
                stream.seek(at)
                data = stream.read(size)
                piece = _taken(data, at)
                if piece.at > at or piece.trouble is not None or len(data) < size:
                    return piece
                size *= 2  # one record is larger than all that was read
    except OSError as e:
        return _Piece([], at, str(e))


def _taken(data: bytes, at: int) -> _Piece:
    points: list[MetricPoint] = []
    try:
        for record, end in records(data, at=at):
            points += _points(record)
            at = end
    except TrackerError as e:
        return _Piece(points, at, str(e))
    return _Piece(points, at)


def _points(record: bytes) -> Iterator[MetricPoint]:
    try:
        event = _Event.FromString(record)
    except DecodeError as e:
        raise TrackerError(f"a record that is no event: {e}") from e
    if not math.isfinite(event.wall_time):
        return
    for value in event.summary.value:
        number = _number(value)
        if number is not None and value.tag:
            yield MetricPoint(value.tag, round(event.wall_time * 1000), number, event.step)


def _number(value: Any) -> float | None:
    """None of what is no scalar."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor") or any(dim.size != 1 for dim in value.tensor.shape.dim):
        return None
    tensor = value.tensor
    for given in (tensor.floats, tensor.doubles, tensor.ints, tensor.longs):
        if len(given) == 1:
            return float(given[0])
    kind = _NUMBERS.get(tensor.dtype)
    if kind is None or len(tensor.content) != struct.calcsize(kind):
        return None
    return float(struct.unpack(f"<{kind}", tensor.content)[0])


_Event: Final = message_classes("trilens.tensorboard", _MESSAGES, presence=True)["Event"]
