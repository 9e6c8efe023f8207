"""A backup has all of one moment or is none, and a data directory comes of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from small_disk import small_disk
from trilens.cli.backup_making import back_up_at_rest
from trilens.model.errors import BackupError, NoDataDirectory, SchemaTooNew, StoreError
from trilens.model.labels import make_labels
from trilens.store import backup_restore
from trilens.store.backup import back_up, clear_unfinished, delete_backup, whole_backups
from trilens.store.backup_manifest import MANIFEST, TABLES, read_manifest, seal
from trilens.store.backup_restore import restore
from trilens.store.backup_tar import tar_pieces
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.horizon import Horizon
from trilens.store.inserts import SampleBatch, SeriesRow, insert_samples, samples_table, series_table
from trilens.store.migrations import MIGRATIONS, current_version, migrate
from trilens.store.retention import Retention, apply_retention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.store.backup_manifest import Manifest

T0 = 1_760_000_000_000
ROWS = 100


def opened(directory: Path) -> Engine:
    engine = Engine.open(directory, EngineOptions(backup_dir=directory.parent / "backups"))
    migrate(engine)
    return engine


def write(engine: Engine, number: int) -> None:
    """A series, and then its samples: one without the other is not of one moment."""
    series = SeriesRow(number, make_labels({"__name__": "m", "i": str(number)}), T0, T0)
    engine.insert_arrow("series", series_table([series]))
    ids, t = np.full(ROWS, number, np.uint64), T0 + np.arange(ROWS)
    batch = SampleBatch(ids, ["m"], np.zeros(ROWS, np.int32), t, np.ones(ROWS))
    insert_samples(engine, Horizon(), samples_table(batch))


def held(directory: Path) -> dict[str, list[int]]:
    """The numbers of the series, and of those that have all their samples."""
    with Engine.open(directory) as engine:
        series = engine.query_arrow("SELECT series AS id FROM series ORDER BY id")["id"].to_pylist()
        whole = f"SELECT series AS id FROM samples GROUP BY id HAVING count() = {ROWS} ORDER BY id"
        return {"series": series, "whole": engine.query_arrow(whole)["id"].to_pylist()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A backup of three series; tests copy it before they change it."""
    folder = tmp_path_factory.mktemp("made")
    with opened(folder / "data") as engine:
        for number in range(3):
            write(engine, number)
        (folder / "data" / "agent-state.json").write_text("{}")
        back_up(engine, folder / "data", folder / "backups" / "one")
    yield folder / "backups" / "one"


@pytest.fixture
def copy(made: Path, directory: Path) -> Path:
    subprocess.run(["cp", "-r", str(made), str(directory.parent / "copy")], check=True)
    return directory.parent / "copy"


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_all_of_one_moment_while_more_comes_in(directory: Path) -> None:
    stop, acknowledged = threading.Event(), threading.Semaphore(0)
    written: list[int] = []

    def go_on() -> None:
        while not stop.is_set():
            write(engine, len(written))
            written.append(len(written))
            acknowledged.release()

    with opened(directory) as engine:
        writer = threading.Thread(target=go_on)
        writer.start()
        for _ in range(3):
            assert acknowledged.acquire(timeout=60)
        before = len(written)
        target = directory.parent / "backups" / "one"
        manifest = back_up(engine, directory, target)
        assert acknowledged.acquire(timeout=60), "intake has stopped"
        stop.set()
        writer.join()
    assert restore(target, directory.parent / "again").manifest == manifest
    found = held(directory.parent / "again")
    assert len(found["whole"]) >= before
    # The last series may have been written, and its samples not yet.
    assert found["series"][: len(found["whole"])] == found["whole"] == [*range(len(found["whole"]))]
    assert len(found["series"]) - len(found["whole"]) in (0, 1)
    assert manifest.rows["series"] == len(found["series"])
    assert manifest.rows["samples"] == ROWS * len(found["whole"])


def test_the_files_beside_the_engine_come_along(directory: Path) -> None:
    with opened(directory) as engine, closing(sqlite3.connect(directory / "queue.sqlite")) as queue:
        queue.execute("PRAGMA journal_mode = WAL")
        queue.execute("CREATE TABLE waiting (a)")
        queue.execute("INSERT INTO waiting VALUES (7)")
        queue.commit()  # in the log beside the file, which alone would be empty
        (directory / "sub").mkdir()
        (directory / "sub" / "state.json").write_text("{}")
        manifest = back_up(engine, directory, directory.parent / "backups" / "one")
    assert {name for name in manifest.files if name.startswith("files/")} == {
        "files/queue.sqlite",
        "files/sub/state.json",
    }
    restore(directory.parent / "backups" / "one", directory.parent / "again")
    with closing(sqlite3.connect(directory.parent / "again" / "queue.sqlite")) as queue:
        assert queue.execute("SELECT a FROM waiting").fetchall() == [(7,)]
    assert sorted(path.name for path in (directory.parent / "again").iterdir()) == [
        "engine",
        "queue.sqlite",
        "sub",
    ]


def test_backups_in_the_data_directory_do_not_hold_each_other(directory: Path) -> None:
    with Engine.open(directory, EngineOptions(backup_dir=directory / "backups")) as engine:
        migrate(engine)
        back_up(engine, directory, directory / "backups" / "one")
        manifest = back_up(engine, directory, directory / "backups" / "two")
    assert [name for name in manifest.files if name.startswith("files/")] == []


def test_backups_made_by_others_are_no_data(directory: Path) -> None:
    """At rest nobody knows the settings of the server whose directory it is."""
    with Engine.open(directory, EngineOptions(backup_dir=directory / "backups")) as engine:
        migrate(engine)
        back_up(engine, directory, directory / "backups" / "one")
    (directory / "backups" / ".unfinished-two").mkdir()
    (directory / "backups" / ".unfinished-two" / "half").write_text("")
    (directory / "backups" / "notes.txt").write_text("")
    with opened(directory) as engine:
        manifest = back_up(engine, directory, directory.parent / "backups" / "three")
        for place in (directory, directory / "engine", directory / "engine" / "store"):
            with pytest.raises(BackupError, match=f"{place}/four would be among the data"):
                back_up(engine, directory, place / "four")
    assert [name for name in manifest.files if name.startswith("files/")] == ["files/backups/notes.txt"]


def test_a_file_that_rotted_is_stored_again(directory: Path) -> None:
    backups = directory.parent / "backups"
    with opened(directory) as engine:
        write(engine, 0)
        back_up(engine, directory, backups / "one")
        rotten = max((backups / "one" / TABLES / "data").rglob("*.bin"), key=lambda path: path.stat().st_size)
        content = bytearray(rotten.read_bytes())
        content[len(content) // 2] ^= 1
        rotten.write_bytes(content)
        back_up(engine, directory, backups / "two", like=backups / "one")
        (backups / "two" / MANIFEST).write_text("{")
        back_up(engine, directory, backups / "three", like=backups / "two")
    assert (backups / "two" / rotten.relative_to(backups / "one")).stat().st_nlink == 1
    restore(backups / "three", directory.parent / "again")
    assert held(directory.parent / "again")["whole"] == [0]


def test_rows_are_counted_before_any_is_merged_or_expires(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore takes as long as there is data, and the engine tidies up meanwhile."""
    target = directory.parent / "backups" / "one"
    with opened(directory) as engine:
        days = timedelta(days=1)
        apply_retention(engine, Retention(days, days, days, days))
        engine.command("SYSTEM STOP MERGES")
        for _ in range(3):
            write(engine, 0)  # long expired, and a series that is told three times
        manifest = back_up(engine, directory, target)
    assert (manifest.rows["series"], manifest.rows["samples"]) == (3, 3 * ROWS)
    check_rows = backup_restore._check_rows

    def later(engine: Engine, manifest: Manifest) -> None:
        for table in ("series", "samples"):
            with suppress(StoreError):
                engine.command(f"OPTIMIZE TABLE {table} FINAL")
        check_rows(engine, manifest)

    monkeypatch.setattr(backup_restore, "_check_rows", later)
    restore(target, directory.parent / "again")


def test_what_was_restored_is_on_disk_for_good(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the engine gets its name, by which a server finds it."""
    synced: set[str] = set()
    fsync, rename = os.fsync, Path.rename

    def noting(file: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{file}").readlink()))
        fsync(file)

    def renaming(path: Path, target: Path) -> Path:
        if path.name == "engine":
            assert {str(path), *map(str, path.rglob("*.bin"))} <= synced
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(Path, "rename", renaming)
    restore(copy, copy.parent / "again")
    assert str(copy.parent / "again") in synced


def test_readers_that_are_all_busy_do_not_keep_writers_waiting(directory: Path) -> None:
    with opened(directory) as engine, ExitStack() as busy:
        for _ in range(engine.options.readers):
            busy.enter_context(engine._pool.reader(None))
        with engine.held_still() as link:
            assert link.query("SELECT 1 AS one")["one"].to_pylist() == [1]


def test_what_the_last_one_has_too_is_not_stored_again(directory: Path) -> None:
    backups = directory.parent / "backups"
    with opened(directory) as engine:
        write(engine, 0)
        back_up(engine, directory, backups / "one")
        write(engine, 1)
        back_up(engine, directory, backups / "two", like=backups / "one")
    parts = [*(backups / "two" / TABLES / "data").rglob("*.bin")]
    linked = [path for path in parts if path.stat().st_nlink == 2]
    assert 0 < len(linked) < len(parts)
    delete_backup(backups / "one", directory)
    restore(backups / "two", directory.parent / "again")
    assert held(directory.parent / "again")["whole"] == [0, 1]


@pytest.mark.parametrize("which", ["data.bin", "count.txt", "agent-state.json", ".sql", ".backup"])
def test_a_flipped_bit_is_named(copy: Path, which: str) -> None:
    file = next(path for path in sorted(copy.rglob("*")) if path.is_file() and path.name.endswith(which))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(BackupError, match=str(file.relative_to(copy))) as refused:
        restore(copy, copy.parent / "again")
    assert refused.value.exit_code == 1
    assert not (copy.parent / "again").exists()


def test_a_file_that_is_missing_or_cut_is_named(copy: Path) -> None:
    cut, gone = sorted((copy / TABLES / "data").rglob("data.bin"))[:2]
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    with pytest.raises(BackupError) as refused:
        restore(copy, copy.parent / "again")
    assert f"{cut.relative_to(copy)}: " in str(refused.value)
    assert f"{gone.relative_to(copy)}: No such file" in str(refused.value)


def test_a_changed_manifest_is_noticed(copy: Path) -> None:
    file = copy / MANIFEST
    file.write_bytes(file.read_bytes().replace(b'"series":3', b'"series":4'))
    with pytest.raises(BackupError, match=r"manifest\.json is damaged"):
        restore(copy, copy.parent / "again")


def test_one_without_a_manifest_is_none(copy: Path) -> None:
    (copy / MANIFEST).unlink()
    assert whole_backups(copy.parent) == []
    with pytest.raises(BackupError, match="no whole backup"):
        restore(copy, copy.parent / "again")


def test_only_an_empty_directory_is_restored_into(copy: Path) -> None:
    target = copy.parent / "again"
    (target / "lost+found").mkdir(parents=True)
    (target / "restoring" / "half").mkdir(parents=True)  # left by one that was killed
    restore(copy, target)
    assert held(target)["whole"] == [0, 1, 2]
    with pytest.raises(BackupError, match="not empty") as refused:
        restore(copy, target)
    assert refused.value.exit_code == 2


def test_what_was_restored_is_for_its_owner_alone(copy: Path, usual_umask: None) -> None:
    data = copy.parent / "new" / "again"
    restore(copy, data)
    assert [oct(path.stat().st_mode & 0o777) for path in (data, data / "engine")] == ["0o700"] * 2
    assert data.parent.stat().st_mode & 0o777 == 0o755


def test_a_place_that_is_a_file_is_refused(copy: Path) -> None:
    for place in (copy / MANIFEST, copy / MANIFEST / "below"):
        with pytest.raises(BackupError, match=f"{place}: that is a file, or below one") as refused:
            restore(copy, place)
        assert refused.value.exit_code == 2
        with pytest.raises(NoDataDirectory, match=f"{place}: that is a file, or below one"):
            Engine.open(place)


def test_a_backup_is_no_data_directory(copy: Path) -> None:
    before = sorted(copy.rglob("*"))
    with pytest.raises(NoDataDirectory) as refused:
        Engine.open(copy)
    assert str(refused.value) == f"{copy} is a backup (trilens restore {copy} --data DIR)"
    assert refused.value.exit_code == 2
    assert sorted(copy.rglob("*")) == before


def test_as_a_tar_file(copy: Path) -> None:
    pieces = [*tar_pieces(copy)]
    tar = copy.parent / "one.tar"
    tar.write_bytes(b"".join(pieces))
    restore(tar, copy.parent / "again")
    assert held(copy.parent / "again")["whole"] == [0, 1, 2]
    whole = b"".join(pieces)
    for content, exit_code in ((whole[: len(whole) // 2], 1), (b"no tar at all", 2), (b"", 2)):
        tar.write_bytes(content)
        with pytest.raises(BackupError, match=f"{tar} is not a whole tar file") as refused:
            restore(tar, copy.parent / "never")
        assert refused.value.exit_code == exit_code
    assert not (copy.parent / "never").exists()


def test_one_of_an_older_trilens_is_brought_to_today(directory: Path) -> None:
    old = tuple(one for one in MIGRATIONS if one.version <= 6)
    target = directory.parent / "backups" / "old"
    with Engine.open(directory, EngineOptions(backup_dir=target.parent)) as engine:
        migrate(engine, old)
        write(engine, 0)
        assert back_up(engine, directory, target).schema == 6
    assert restore(target, directory.parent / "again").schema == MIGRATIONS[-1].version
    with Engine.open(directory.parent / "again") as engine:
        assert current_version(engine) == MIGRATIONS[-1].version
    assert held(directory.parent / "again")["whole"] == [0]


def test_one_of_a_newer_trilens_is_refused(copy: Path) -> None:
    newer = msgspec.structs.replace(read_manifest(copy), schema=MIGRATIONS[-1].version + 1)
    seal(copy, newer)
    with pytest.raises(SchemaTooNew):
        restore(copy, copy.parent / "again")


@pytest.mark.parametrize("room_bytes", [0, 40_000])
def test_a_full_disk_leaves_nothing_behind(directory: Path, room_bytes: int) -> None:
    """Seen before it begins, and in the middle."""
    with (
        small_disk(directory.parent / "small") as disk,
        Engine.open(directory, EngineOptions(backup_dir=disk)) as engine,
    ):
        migrate(engine)
        (disk / "ballast").write_bytes(bytes((48 << 20) - room_bytes))
        with pytest.raises(BackupError, match="space") as refused:
            back_up(engine, directory, disk / ".one.tar.parts", packed_as=disk / "one.tar")
        assert "one.tar.parts" not in str(refused.value)
        assert str(disk / "one.tar" if room_bytes else disk) in str(refused.value)
        assert [path.name for path in disk.iterdir()] == ["ballast"]


MB = 1 << 20


@pytest.mark.parametrize(("room", "is_enough"), [(32 * MB, True), (28 * MB, False)])
def test_a_tar_file_takes_the_room_of_its_largest_file_once_more(
    directory: Path, room: int, is_enough: bool
) -> None:
    with opened(directory) as engine:
        write(engine, 0)
    for number in range(11):
        (directory / f"kept-{number}").write_bytes(os.urandom(2 * MB))
    (directory / "largest").write_bytes(os.urandom(4 * MB))
    with small_disk(directory.parent / "small") as disk:
        (disk / "ballast").write_bytes(bytes(48 * MB - room))
        tar = disk / "all.tar"
        if is_enough:
            manifest = back_up_at_rest(directory, tar)
            restored = restore(tar, directory.parent / "again").manifest
            assert restored == manifest
            assert manifest.bytes > 26 * MB
            kept = (directory.parent / "again" / "largest").read_bytes()
            assert kept == (directory / "largest").read_bytes()
        else:
            with pytest.raises(BackupError, match=r"takes 3\d\.\d MB, 29\.\d MB are free"):
                back_up_at_rest(directory, tar)
        assert sorted(path.name for path in disk.iterdir()) == ["all.tar", "ballast"][not is_enough :]


def test_little_room_is_told_in_small_units(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=120))
    with opened(directory) as engine:
        write(engine, 0)
        wanted = []
        for packed_as in (None, directory.parent / "backups" / "one.tar"):
            said = r"takes ([\d.]+) KB, 120 bytes are free"
            with pytest.raises(BackupError, match=said) as refused:
                back_up(engine, directory, directory.parent / "backups" / "one", packed_as=packed_as)
            told = re.search(said, str(refused.value))
            assert told is not None
            wanted.append(float(told[1]))
        assert wanted[0] < wanted[1] < 2 * wanted[0], "the largest file of a part, once more"


def test_a_place_that_cannot_be_written_is_named(directory: Path) -> None:
    (directory.parent / "backups").write_text("a file")
    with opened(directory) as engine, pytest.raises(BackupError, match=r"backups/one: .*exists|directory"):
        back_up(engine, directory, directory.parent / "backups" / "one")


def test_one_that_is_stopped_leaves_nothing(directory: Path) -> None:
    stop = threading.Event()
    stop.set()
    with opened(directory) as engine, pytest.raises(BackupError, match="stopped"):
        back_up(engine, directory, directory.parent / "backups" / "one", stop=stop)
    assert [*(directory.parent / "backups").iterdir()] == []


def test_a_kill_in_the_middle_leaves_nothing_that_looks_whole(directory: Path) -> None:
    """Killed when the tables are copied, and the manifest is not written yet."""
    child = Path(__file__).with_name("backup_child.py")
    backups = directory.parent / "backups"
    with subprocess.Popen(
        [sys.executable, str(child), str(directory), str(backups / "one")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "copied\n"
        os.kill(process.pid, signal.SIGKILL)
    (left,) = backups.iterdir()
    assert any((left / TABLES).rglob("*.bin"))
    assert whole_backups(backups) == []
    with pytest.raises(BackupError, match="no whole backup"):
        restore(left, directory.parent / "again")
    theirs = backups / ".unfinished-0123456789ab-one"
    theirs.mkdir()
    clear_unfinished(backups, directory.parent / "other data")
    assert sorted(backups.iterdir()) == sorted([left, theirs])
    clear_unfinished(backups, directory)
    assert [*backups.iterdir()] == [theirs]
    theirs.rmdir()
    assert [*backups.iterdir()] == []
    with opened(directory) as engine:
        back_up(engine, directory, backups / "one")
    assert [path.name for path, _ in whole_backups(backups)] == ["one"]


def test_a_file_that_somebody_holds_is_named(directory: Path) -> None:
    with opened(directory) as engine, closing(sqlite3.connect(directory / "queue.sqlite")) as queue:
        queue.execute("PRAGMA locking_mode = EXCLUSIVE")
        queue.execute("CREATE TABLE waiting (a)")
        queue.commit()
        target = directory.parent / "backups" / "one"
        with pytest.raises(BackupError, match=r"cannot copy .*queue\.sqlite: .*locked"):
            back_up(engine, directory, target)
        copies = {"queue.sqlite": lambda path: path.write_text("by its holder")}
        assert "files/queue.sqlite" in back_up(engine, directory, target, copies=copies).files


def test_what_its_holder_copies_is_of_the_same_moment(directory: Path) -> None:
    """Nobody was told of what is not in the tables."""
    target = directory.parent / "backups" / "one"

    def copy(path: Path) -> None:
        assert engine._write_lock.locked()
        assert not (target.parent / f".unfinished-{target.name}" / TABLES).exists()
        path.write_text("by its holder")

    with opened(directory) as engine:
        (directory / "queue").write_text("")
        back_up(engine, directory, target, copies={"queue": copy})
    assert (target / "files" / "queue").read_text() == "by its holder"
