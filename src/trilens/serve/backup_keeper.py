"""Makes backups, when asked and as often as the settings say, and deletes the oldest."""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily

from trilens.model.errors import BackupError, BackupNotNow, TrilensError
from trilens.serve.questions import clock_ms
from trilens.serve.state_metrics import gauge
from trilens.store.backup import clear_unfinished, delete_backup, whole_backups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prometheus_client import Metric

    from trilens.settings.storage import StorageSettings
    from trilens.store.backup_manifest import Manifest

    Make = Callable[[Path, Path | None, threading.Event], Manifest]
    Failed = Callable[[str, Exception], None]

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z")
_LOOK_S: Final = 10.0  # a backup that is due is begun so soon


def _nobody(_name: str, _error: Exception) -> None:
    """Of one that was due, the state and the log tell."""


class WholeBackup(NamedTuple):
    path: Path
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class BackupState:
    running: str | None = None  # the name of the one that is being made
    latest: WholeBackup | None = None
    took_s: float | None = None  # for the latest of this process
    failures: int = 0
    failed: str | None = None  # the name of the last one, if that failed
    error: str | None = None  # and why


class BackupKeeper:
    """A thread of its own; everything public may be called from any other."""

    def __init__(self, make: Make, storage: StorageSettings, *, now_ms: Callable[[], int] = clock_ms) -> None:
        self._make = make
        self._keep = storage.backup_keep
        self._now_ms = now_ms
        self.directory = storage.backups
        self._data_dir = storage.data_dir
        self.every_s = storage.backup_every.total_seconds() if storage.backup_every is not None else None
        self.state = BackupState()
        self._tell_failed: Failed = _nobody
        self._asked = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trilens-backup", daemon=True)

    def start(self) -> None:
        if self.directory is not None:
            try:
                clear_unfinished(self.directory, self._data_dir)
                latest = self.whole()[-1:]
                self.state = replace(self.state, latest=latest[0] if latest else None)
            except (OSError, BackupError) as e:  # making one will fail, and says so
                log.error("earlier backups are not known", extra={"error": str(e)})
            self._thread.start()

    def stop(self) -> None:
        """One that is being made is given up."""
        self._stopping.set()
        with self._asked:
            self._asked.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_on_data_disk(self) -> bool:
        """Where one that breaks takes the backups with the data."""
        try:
            return self.directory is not None and self.directory.stat().st_dev == self._data_dir.stat().st_dev
        except OSError:  # not made yet
            return False

    def whole(self) -> list[WholeBackup]:
        """The oldest first."""
        return [WholeBackup(*one) for one in whole_backups(self.directory)] if self.directory else []

    def find(self, name: str) -> Path | None:
        """Of a whole one. The name is looked up, never used as a path."""
        return next((one.path for one in self.whole() if one.path.name == name), None)

    def begin(self, tell_failed: Failed = _nobody) -> str:
        """The name of the one that is made from now on; if it fails, `tell_failed` gets that and why, in the
        thread that makes it. While one is being made, BackupNotNow: its moment may be over already."""
        if self.directory is None:
            raise BackupNotNow(
                "the tables are on a ClickHouse server, which makes its own backups",
                hint="run BACKUP DATABASE there, as docs/operations.md says",
            )
        with self._asked:
            if self._stopping.is_set():
                raise BackupError("no backup is begun: the server ends")
            if self.state.running is not None:
                raise BackupNotNow(
                    f"the backup {self.state.running} is being made", hint="ask again when it is"
                )
            name = self._new_name()
            self._tell_failed = tell_failed
            self.state = replace(self.state, running=name)
            self._asked.notify_all()
            return name

    def metrics(self) -> Iterator[Metric]:
        state, latest = self.state, self.state.latest
        if self.directory is None:
            return
        yield gauge("trilens_backup_running", "1 while a backup is made.", float(state.running is not None))
        failures_help = "Backups that failed."
        yield CounterMetricFamily("trilens_backup_failures", failures_help, value=state.failures)
        failed_help = "1 where the last backup failed, of those since the start."
        yield gauge("trilens_backup_last_failed", failed_help, float(state.failed is not None))
        if self.every_s is not None:
            every_help = "How often a backup is to be made; absent where that is not set."
            yield gauge("trilens_backup_interval_seconds", every_help, self.every_s)
        if latest is not None:
            made_help = "Of what moment the latest backup is; absent before the first."
            made_s = latest.manifest.made_ms / 1000
            yield gauge("trilens_backup_last_success_timestamp_seconds", made_help, made_s)
            yield gauge("trilens_backup_last_size_bytes", "Size of the latest.", latest.manifest.bytes)
        if state.took_s is not None:
            took_help = "How long the latest took, of those since the start."
            yield gauge("trilens_backup_last_duration_seconds", took_help, state.took_s)

    def _work(self) -> None:
        while not self._stopping.is_set():
            if self.state.running is None and self._is_due():
                with suppress(BackupError):  # somebody has asked for one meanwhile, or it is to stop
                    self.begin()
            if self.state.running is not None:
                self._make_one(self.state.running)
            with self._asked:
                self._asked.wait_for(lambda: self._stopping.is_set() or self.state.running, _LOOK_S)

    def _is_due(self) -> bool:
        """By what is on disk: a restart neither delays nor repeats one. A failed one waits its turn too."""
        if self.every_s is None:
            return False
        known = [self.state.latest.manifest.made_ms] if self.state.latest is not None else []
        if self.state.failed is not None:
            known.append(_named_ms(self.state.failed))
        age_ms = self._now_ms() - max(known, default=0)
        return not 0 <= age_ms < self.every_s * 1000  # one from the future: the clock was set back

    def _make_one(self, name: str) -> None:
        assert self.directory is not None
        began_s, latest = time.monotonic(), self.state.latest
        tell_failed, self._tell_failed = self._tell_failed, _nobody
        like = latest.path if latest is not None and latest.path.is_dir() else None
        try:
            made = WholeBackup(self.directory / name, self._make(self.directory / name, like, self._stopping))
        except TrilensError as e:
            self._note_failure(name, e, tell_failed)
        except Exception as e:
            log.exception("making a backup failed in a way that was not foreseen")
            self._note_failure(name, e, tell_failed)
        else:
            took_s = time.monotonic() - began_s
            self.state = replace(
                self.state, running=None, latest=made, took_s=took_s, failed=None, error=None
            )
            log.info("made a backup", extra={"path": str(made.path), "seconds": round(took_s, 3)})
            self._delete_oldest()

    def _note_failure(self, name: str, error: Exception, tell_failed: Failed) -> None:
        log.error("a backup was not made", extra={"backup": name, "error": str(error)})
        failures = self.state.failures + 1
        self.state = replace(self.state, running=None, failures=failures, failed=name, error=str(error))
        tell_failed(name, error)

    def _delete_oldest(self) -> None:
        """Of those that a server has named. What people put beside them is theirs."""
        try:
            own = [one.path for one in self.whole() if _NAME.fullmatch(one.path.name)]
            for path in own[: -self._keep]:
                delete_backup(path, self._data_dir)
        except TrilensError as e:
            log.warning("an old backup is still there", extra={"error": str(e)})

    def _new_name(self) -> str:
        """Its time, to the millisecond: two never have the same."""
        moment = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z"


def _named_ms(name: str) -> int:
    moment = datetime.strptime(name, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
