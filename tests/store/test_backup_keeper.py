"""Backups are made when asked for and when due, and the oldest go."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from servers import until
from trilens.model.errors import BackupError, BackupNotNow
from trilens.serve import backup_keeper
from trilens.serve.backup_keeper import BackupKeeper
from trilens.serve.checkup.backups import failed
from trilens.settings.storage import StorageSettings
from trilens.store.backup import _unfinished
from trilens.store.backup_manifest import Manifest, seal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

DAY_MS = 86_400_000
T0 = 1_760_000_000_000
PATIENCE_S = 60.0


class Backups:
    """Makes empty ones, each noted; `clock_ms` is what the keeper's clock says."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.storage = StorageSettings(data_dir=directory, **settings)
        self.clock_ms = T0
        self.made = threading.Semaphore(0)
        self.linked: list[Path | None] = []
        self.fail: Exception | None = None

    def make(self, target: Path, like: Path | None, _stop: threading.Event) -> Manifest:
        try:
            if self.fail is not None:
                raise self.fail
            self.linked.append(like)
            target.mkdir(parents=True)
            return seal(target, Manifest(1, self.clock_ms, "0", "0", 1, {"samples": 3}, {}))
        finally:
            self.made.release()

    def keeper(self) -> BackupKeeper:
        return BackupKeeper(self.make, self.storage, now_ms=lambda: self.clock_ms)

    def is_made(self) -> bool:
        return self.made.acquire(timeout=PATIENCE_S)


def settled(keeper: BackupKeeper) -> None:
    """Stopping waits for what is being made."""
    keeper.stop()


def names(keeper: BackupKeeper) -> list[str]:
    return [one.path.name for one in keeper.whole()]


def metrics(keeper: BackupKeeper) -> dict[str, float]:
    return {sample.name: sample.value for metric in keeper.metrics() for sample in metric.samples}


def test_one_is_made_when_asked_for(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    keeper = backups.keeper()
    assert "trilens_backup_last_success_timestamp_seconds" not in metrics(keeper)
    keeper.start()
    name = keeper.begin()
    assert backups.is_made()
    settled(keeper)
    assert names(keeper) == [name] == ["20251009T085320.000Z"]
    found = metrics(keeper)
    assert found["trilens_backup_last_success_timestamp_seconds"] == T0 / 1000
    assert found["trilens_backup_failures_total"] == 0
    with pytest.raises(BackupError, match="the server ends"):
        keeper.begin()


def test_one_at_a_time(tmp_path: Path) -> None:
    """What was acknowledged since the first began may not be in it."""
    keeper = Backups(tmp_path).keeper()  # and nothing makes it
    name = keeper.begin()
    with pytest.raises(BackupNotNow, match=f"{name} is being made"):
        keeper.begin()


def test_those_beyond_what_is_kept_go(tmp_path: Path) -> None:
    backups = Backups(tmp_path, backup_keep=2)
    made = []
    for day in range(4):
        backups.clock_ms = T0 + day * DAY_MS
        keeper = backups.keeper()
        keeper.start()
        made.append(keeper.begin())
        assert backups.is_made()
        settled(keeper)
    assert names(keeper) == made[2:]
    assert [like.name if like else None for like in backups.linked] == [None, *made[:3]]


def test_only_backups_that_a_server_named_go(tmp_path: Path) -> None:
    """`trilens backup` puts its own beside them under any name, and others may copy something there."""
    backups = Backups(tmp_path, backup_keep=1)
    theirs = ["monday", "20251009T085320Z", "20200101T000000.000Z.before-the-upgrade"]
    for name in theirs:
        backups.make(tmp_path / "backups" / name, None, threading.Event())
    keeper = backups.keeper()
    keeper.start()
    for _ in range(3):
        backups.clock_ms += DAY_MS
        last = keeper.begin()
        until(lambda: keeper.state.running is None, "it is never made")
    settled(keeper)
    assert sorted(names(keeper)) == sorted([*theirs, last])


def test_what_others_have_not_finished_is_left(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    keeper = backups.keeper()
    keeper.start()
    keeper.begin()
    until(lambda: keeper.state.running is None, "it is never made")
    settled(keeper)
    (made,) = keeper.whole()
    own = _unfinished(made.path, tmp_path)
    others = made.path.with_name(".unfinished-0123456789ab-20251009T085320.000Z")
    for path in (own, others):
        path.mkdir()
    again = backups.keeper()
    again.start()
    settled(again)
    assert (own.exists(), others.exists(), made.path.exists()) == (False, True, True)


@pytest.mark.parametrize(
    ("age_ms", "is_due"), [(0, False), (DAY_MS - 1, False), (DAY_MS, True), (-DAY_MS, True)]
)
def test_when_the_next_is_due(tmp_path: Path, age_ms: int, is_due: bool) -> None:
    """By the backups on disk, whoever made them; after the clock was set back, too."""
    backups = Backups(tmp_path, backup_every=timedelta(days=1))
    first = backups.keeper()
    first.start()  # none is there
    assert backups.is_made()
    settled(first)
    backups.clock_ms += age_ms
    again = backups.keeper()
    again.state = first.state
    assert again._is_due() is is_due


def test_one_that_is_asked_for_as_another_falls_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is due is then the one that was asked for; the thread that makes them goes on."""
    backups = Backups(tmp_path, backup_every=timedelta(days=1))
    keeper = backups.keeper()
    is_due = keeper._is_due
    monkeypatch.setattr(keeper, "_is_due", lambda: is_due() and bool(keeper.begin()))
    keeper.start()
    assert backups.is_made()
    settled(keeper)
    assert (keeper.state.running, keeper.state.failures) == (None, 0)
    assert len(names(keeper)) == 1


def test_one_that_falls_due_as_the_server_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Backups(tmp_path, backup_every=timedelta(days=1)).keeper()

    def is_due() -> bool:
        keeper._stopping.set()
        return True

    monkeypatch.setattr(keeper, "_is_due", is_due)
    ended: list[object] = []
    monkeypatch.setattr(threading, "excepthook", ended.append)
    keeper.start()
    settled(keeper)
    assert (ended, names(keeper)) == ([], [])


def test_who_asked_for_one_is_not_told_of_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_keeper, "_LOOK_S", 0.01)
    backups = Backups(tmp_path, backup_every=timedelta(days=1))
    told: list[str] = []
    keeper = backups.keeper()
    keeper.begin(lambda name, _error: told.append(name))
    keeper.start()
    assert backups.is_made()
    backups.fail = BackupError("no space")
    backups.clock_ms += DAY_MS
    assert backups.is_made()
    settled(keeper)
    assert (told, keeper.state.failures) == ([], 1)


def test_who_is_told_of_a_failure_may_ask_for_another(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    backups.fail = BackupError("no space")
    keeper, told = backups.keeper(), []

    def again(_name: str, error: Exception) -> None:
        told.append(str(error))
        backups.fail = None
        keeper.begin()

    keeper.start()
    keeper.begin(again)
    assert backups.is_made()
    assert backups.is_made()
    settled(keeper)
    assert (told, keeper.state.error) == (["no space"], None)


def test_one_that_fails_is_told_and_waits_its_turn(tmp_path: Path) -> None:
    backups = Backups(tmp_path, backup_every=timedelta(days=1))
    backups.fail = BackupError("no space")
    keeper = backups.keeper()
    keeper.start()
    assert backups.is_made()
    settled(keeper)
    assert (keeper.state.running, keeper.state.failures, keeper.state.error) == (None, 1, "no space")
    assert not keeper._is_due()
    assert metrics(keeper)["trilens_backup_last_failed"] == 1
    backups.clock_ms += DAY_MS
    assert keeper._is_due()


def test_one_that_is_made_ends_what_the_one_before_told(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    backups.fail = BackupError("no space")
    keeper = backups.keeper()
    assert metrics(keeper)["trilens_backup_last_failed"] == 0
    keeper.start()
    keeper.begin()
    until(lambda: metrics(keeper)["trilens_backup_last_failed"] == 1, "its failure is not told")
    backups.fail = None
    keeper.begin()
    until(lambda: metrics(keeper)["trilens_backup_last_failed"] == 0, "it is told for ever")
    settled(keeper)
    assert metrics(keeper)["trilens_backup_failures_total"] == 1


@pytest.mark.parametrize(
    ("made", "means"),
    [([], "there is none yet"), ([{"made_ms": T0}], "the latest is older than it should be")],
)
def test_what_one_that_failed_means(made: list[dict[str, int]], means: str) -> None:
    told = {"failed": "20251009T085320.000Z", "error": "no space", "backups": made}
    (found,) = failed(cast("Evidence", SimpleNamespace(backups=told)))
    assert (found.what, found.means) == ("the last backup failed: no space", means)


def test_only_whole_ones_are_found_by_their_name(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "data")
    keeper = backups.keeper()
    keeper.start()
    name = keeper.begin()
    assert backups.is_made()
    settled(keeper)
    (tmp_path / "data" / "backups" / "half").mkdir()
    assert keeper.find(name) == tmp_path / "data" / "backups" / name
    for wrong in ("half", "..", f"../backups/{name}", f".unfinished-{name}", ""):
        assert keeper.find(wrong) is None


def test_where_a_server_has_the_tables_it_makes_the_backups(tmp_path: Path) -> None:
    keeper = Backups(tmp_path, url="http://clickhouse:8123/trilens").keeper()
    keeper.start()
    with pytest.raises(BackupError, match="ClickHouse"):
        keeper.begin()
    assert (keeper.whole(), [*keeper.metrics()]) == ([], [])


def test_a_schedule_is_refused_where_a_server_has_the_tables() -> None:
    with pytest.raises(ValueError, match="makes its own backups"):
        StorageSettings(url="http://clickhouse", backup_every=timedelta(days=1))


def test_backups_may_not_lie_among_the_data(tmp_path: Path) -> None:
    for place in (tmp_path / "x" / "..", tmp_path / "engine", tmp_path / "engine" / "in", tmp_path / "x"):
        with pytest.raises(ValueError, match=f"backup_dir {place} is among the data"):
            StorageSettings(data_dir=tmp_path, backup_dir=place)
    for place in (tmp_path / "backups", tmp_path / "backups" / "daily", tmp_path.parent / "elsewhere"):
        assert StorageSettings(data_dir=tmp_path, backup_dir=place).backups == place


def test_backups_are_not_made_all_the_time() -> None:
    with pytest.raises(ValueError, match="at least 1m"):
        StorageSettings(backup_every=timedelta(seconds=10))
    assert StorageSettings(backup_every=timedelta(minutes=1)).backup_every == timedelta(minutes=1)


def test_a_directory_that_cannot_be_read_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a file server that is away for a while."""
    backups = Backups(tmp_path)
    keeper = backups.keeper()
    away = False
    listing = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if away:
            raise OSError(116, "Stale file handle")
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    keeper.start()
    away = True
    keeper.begin()
    assert backups.is_made()
    with pytest.raises(BackupError, match="Stale file handle"):
        keeper.whole()
    until(lambda: keeper.state.running is None, "it is never done")
    away = False
    second = keeper.begin()
    assert backups.is_made()
    settled(keeper)
    assert second in names(keeper)
