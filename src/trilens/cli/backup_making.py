"""How `trilens backup` gets one: from a server over its API, or by opening a directory at rest."""

from __future__ import annotations

import io
import os
import re
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from trilens.cli.client import Client
from trilens.model.errors import BackupError, ConfigError, ServerError
from trilens.store.backup_manifest import Manifest, damaged_files, read_manifest
from trilens.store.backup_tar import tar_pieces, unpack
from trilens.store.engine import ENGINE_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FIRST_LOOK_S: Final = 0.2
_LAST_LOOK_S: Final = 5.0  # of a backup that takes long: each answer is read off the disk
_UNFINISHED: Final = ".unfinished"
_ARCHIVE: Final = re.compile(
    r"(\.tar)?\.(tar|tgz|tbz2?|txz|tzst|gz|bz2|xz|zst|lz4|zip|7z|rar)$", re.IGNORECASE
)
_OWNER_ALONE: Final = 0o600  # everything is in it


def back_up_server(server: str | None, target: Path | None) -> dict[str, Any]:
    """What it says of the backup, once that is where it was wanted."""
    with Client(server) as client:
        pauses = _pauses()
        while client.get("/api/backups")["data"]["running"] is not None:  # of an earlier moment
            time.sleep(next(pauses))
        name = client.post("/api/backups")["data"]["name"]
        made = _when_made(client, name)
        if target is not None:
            with client.stream(f"/api/backups/{name}") as answer:
                _keep(answer.iter_bytes(), target)
            made["path"] = str(target)
    return made


def back_up_at_rest(data: Path, target: Path) -> Manifest:
    from trilens.store.backup import back_up, check_place
    from trilens.store.engine import Engine
    from trilens.store.engine_settings import EngineOptions

    if not (data / ENGINE_DIR).is_dir():  # opening would make one, wherever this is
        raise ConfigError(f"{data} holds no Trilens data")
    check_place(target, data)
    with Engine.open(data, EngineOptions(backup_dir=target.parent)) as engine:
        if not _is_tar(target):
            return back_up(engine, data, target)
        parts = target.with_name(f".{target.name}.parts")
        shutil.rmtree(parts, ignore_errors=True)  # of one that was killed
        manifest = back_up(engine, data, parts, packed_as=target)
    try:
        _keep(tar_pieces(parts, and_delete=True), target)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return manifest


def _when_made(client: Client, name: str) -> dict[str, Any]:
    pauses = _pauses()
    while True:
        told = client.get("/api/backups")["data"]
        for one in told["backups"]:
            if one["name"] == name:
                found: dict[str, Any] = one
                return found
        if told["failed"] == name:
            raise ServerError(f"the server could not make the backup: {told['error']}")
        if told["running"] != name:
            raise ServerError("the server knows nothing of the backup any more", hint="was it restarted?")
        time.sleep(next(pauses))


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_LOOK_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, _LAST_LOOK_S)


def _keep(pieces: Iterator[bytes], target: Path) -> None:
    """Under its name only once it is whole."""
    unfinished = target.with_name(f".{target.name}{_UNFINISHED}")
    with _clean_behind(unfinished, target):
        if _is_tar(target):
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ALONE)
            with os.fdopen(descriptor, "wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        else:
            unpack(io.BufferedReader(_Pieces(pieces)), unfinished)
            if damaged := next(damaged_files(unfinished, read_manifest(unfinished)), None):
                raise BackupError(f"the backup did not arrive as it was sent: {damaged}")
        unfinished.rename(target)


@contextmanager
def _clean_behind(unfinished: Path, target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise BackupError(f"cannot write {target}: {e.strerror}") from e
    finally:
        if unfinished.is_dir():
            shutil.rmtree(unfinished, ignore_errors=True)
        else:
            unfinished.unlink(missing_ok=True)


def refuse_archives(target: Path) -> None:
    """A directory by the name of a file that packs one is nothing that anybody wanted."""
    if not _is_tar(target) and _ARCHIVE.search(target.name):
        raise ConfigError(
            f"a backup is no {target.name}: it is a directory or a .tar file",
            hint=f"name it {_ARCHIVE.sub('', target.name) or 'FILE'}.tar",
        )


def _is_tar(target: Path) -> bool:
    return target.suffix == ".tar"


class _Pieces(io.RawIOBase):
    """Bytes that come in pieces, as a file that can be read once."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)
