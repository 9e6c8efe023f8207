"""Event files as the real writers make them: torch's, and TensorBoard's own with tensors."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from trilens.collect.trackers import tensorboard, tfrecord
from trilens.collect.trackers.tensorboard import TensorBoardFolder
from trilens.collect.trackers.tfrecord import records
from trilens.model.errors import TrackerError

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.model.tracked_run import TrackerChange


def write(folder: Path, *events: Event) -> None:
    writer = EventFileWriter(str(folder))
    for event in events:
        writer.add_event(event)
    writer.close()


def scalar(tag: str, value: float, step: int, t_s: float = 1000.0) -> Event:
    return Event(
        wall_time=t_s, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    )


def read(folder: Path, cursors: dict[str, str] | None = None) -> list[TrackerChange]:
    return [*TensorBoardFolder(folder).changes(cursors if cursors is not None else {})]


def points(changes: list[TrackerChange]) -> list[tuple[str, int, float, int | None]]:
    return [tuple(point) for change in changes for point in change.points]


def test_scalars_of_both_kinds_are_read(tmp_path: Path) -> None:
    as_tensor = Event(wall_time=2.5, step=7, summary=scalar_pb("val/acc", 0.75))
    write(tmp_path / "sweep" / "a", scalar("loss", 0.5, 1), as_tensor)
    [change] = read(tmp_path)
    assert change.run.tracker == ("tensorboard", "sweep/a", str(tmp_path))
    assert points([change]) == [("loss", 1_000_000, 0.5, 1), ("val/acc", 2_500, 0.75, 7)]
    assert (change.run.step, change.run.metrics) == (7, {"loss": 0.5, "val/acc": 0.75})


def test_zero_is_a_value_and_nothing_else_is_taken_for_one(tmp_path: Path) -> None:
    image = Summary.Value(tag="picture", image=Summary.Image(height=1))
    write(tmp_path, scalar("loss", 0.0, 1), Event(wall_time=1, step=2, summary=Summary(value=[image])))
    assert points(read(tmp_path)) == [("loss", 1_000_000, 0.0, 1)]


def test_nan_and_infinity_are_kept(tmp_path: Path) -> None:
    write(tmp_path, scalar("loss", math.nan, 1), scalar("loss", math.inf, 2))
    first, second = (value for _, _, value, _ in points(read(tmp_path)))
    assert math.isnan(first)
    assert second == math.inf


def test_goes_on_where_it_was_and_waits_for_a_record_that_is_cut_off(tmp_path: Path) -> None:
    write(tmp_path, scalar("loss", 3.0, 1), scalar("loss", 2.0, 2))
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    [first] = read(tmp_path)
    assert [value for _, _, value, _ in points([first])] == [3.0]
    assert read(tmp_path, {".": first.cursor}) == []
    file.write_bytes(whole)
    assert [value for _, _, value, _ in points(read(tmp_path, {".": first.cursor}))] == [2.0]


def test_a_second_file_of_a_run_is_read_too(tmp_path: Path) -> None:
    write(tmp_path, scalar("loss", 3.0, 1))
    [first] = read(tmp_path)
    (tmp_path / "events.out.tfevents.9999999999.again").write_bytes(b"")
    write(tmp_path / "other", scalar("loss", 1.0, 9))
    (made,) = (tmp_path / "other").iterdir()
    made.rename(tmp_path / "events.out.tfevents.9999999999.again")
    assert [value for _, _, value, _ in points(read(tmp_path, {".": first.cursor}))] == [1.0]


def test_a_damaged_file_is_passed_over_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path / "good", scalar("loss", 3.0, 1))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "events.out.tfevents.1.x").write_bytes(b"this is no event file, not at all")
    changes = read(tmp_path)
    assert points(changes) == [("loss", 1_000_000, 3.0, 1)]
    again = {change.run.tracker.run: change.cursor for change in changes}
    assert read(tmp_path, again) == []


def test_what_comes_before_a_damage_is_read_and_the_damage_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, scalar("loss", 3.0, 1), scalar("loss", 2.0, 2))
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3] + b"???")
    folder = TensorBoardFolder(tmp_path)
    [change] = folder.changes({})
    assert [value for _, _, value, _ in points([change])] == [3.0]
    for _ in range(3):
        assert [*folder.changes({".": change.cursor})] == []
    assert [getattr(record, "passed_over", None) for record in caplog.records] == [str(file)]
    file.write_bytes(whole)
    assert [value for _, _, value, _ in points([*folder.changes({".": change.cursor})])] == [2.0]


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path, scalar("loss", 3.0, 1), scalar("loss", 2.0, 2))
    [first] = read(tmp_path)
    [file] = tmp_path.iterdir()
    write(tmp_path / "other", scalar("loss", 1.0, 9))
    (made,) = (tmp_path / "other").iterdir()
    made.rename(file)
    assert [value for _, _, value, _ in points(read(tmp_path, {".": first.cursor}))] == [1.0]


def test_large_records_are_passed_over_and_what_follows_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfrecord, "_WITH_NUMBERS", 1_000)
    monkeypatch.setattr(tensorboard, "_READ_BYTES", 4_000)
    image = Summary.Value(tag="picture", image=Summary.Image(encoded_image_string=bytes(9_000)))
    picture = Event(wall_time=1, step=2, summary=Summary(value=[image]))
    write(tmp_path, scalar("loss", 3.0, 1), picture, scalar("loss", 2.0, 3))
    assert [value for _, _, value, _ in points(read(tmp_path))] == [3.0, 2.0]


def test_a_moment_that_is_none_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path, scalar("loss", 3.0, 1, math.inf), scalar("loss", 2.0, 2, math.nan), scalar("loss", 1.0, 3)
    )
    assert [value for _, _, value, _ in points(read(tmp_path))] == [1.0]


def test_a_changed_byte_is_seen() -> None:
    with pytest.raises(TrackerError, match="at byte 100"):
        [*records(b"\0" * 16, at=100)]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="there is no folder"):
        read(tmp_path / "nowhere")


def test_torch_writes_what_is_read_here(tmp_path: Path) -> None:
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path))
    writer.add_scalar("train/loss", 0.25, 3, walltime=12.0)
    writer.add_text("note", "hello")
    writer.close()
    [change] = read(tmp_path)
    assert points([change]) == [("train/loss", 12_000, 0.25, 3)]
    assert json.loads(change.cursor)
