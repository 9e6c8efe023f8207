"""What is in a backup: written last, so a backup without it, or that differs from it, is none."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.errors import BackupError, BackupMisnamed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANIFEST: Final = "manifest.json"
TABLES: Final = "tables"  # what the engine wrote, inside a backup
FILES: Final = "files"  # what lay beside the engine
FORMAT: Final = 1
_PIECE: Final = 1 << 20


class KeptFile(msgspec.Struct, frozen=True):
    bytes: int
    blake2b: str


class Manifest(msgspec.Struct, frozen=True):
    """All that was acknowledged before `made_ms` is in the backup."""

    format: int
    made_ms: int
    trilens: str  # the version that made it
    engine: str
    schema: int
    rows: dict[str, int]  # of each table
    files: dict[str, KeptFile]  # by their paths in the backup
    digest: str = ""  # of all the above

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


def seal(directory: Path, manifest: Manifest) -> Manifest:
    """Write it, so that it is there after a crash, with all that it names."""
    sealed = msgspec.structs.replace(manifest, digest=_digest(manifest))
    path = directory / MANIFEST
    with path.open("wb") as file:
        file.write(msgspec.json.encode(sealed))
        file.flush()
        os.fsync(file.fileno())
    for folder, _, _ in os.walk(directory):
        sync_directory(folder)
    return sealed


def sync_tree(directory: Path) -> None:
    """All that is in it outlives the power."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        elif path.is_dir():
            sync_directory(path)
    sync_directory(directory)


def is_backup(directory: Path) -> bool:
    """By its look; whether it is whole, restore says."""
    return (directory / MANIFEST).is_file() and (directory / TABLES).is_dir()


def read_manifest(directory: Path) -> Manifest:
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError as e:
        raise BackupMisnamed(
            f"{directory} is no whole backup: it has no {MANIFEST}",
            hint="that is written last: the backup was interrupted, or this is something else",
        ) from e
    except OSError as e:
        raise BackupError(f"cannot read {path}: {e.strerror}") from e
    except msgspec.DecodeError as e:
        raise BackupError(f"{path} is damaged: {e}") from e
    if manifest.digest != _digest(manifest):
        raise BackupError(f"{path} is damaged: it is not as it was written")
    if manifest.format > FORMAT:
        raise BackupError(
            f"{directory} is a backup of format {manifest.format}; this Trilens knows up to {FORMAT}",
            hint="use a Trilens at least as new as the one that made it",
        )
    return manifest


def damaged_files(directory: Path, manifest: Manifest) -> Iterator[str]:
    """Each file that is not as it was written, and how."""
    for name, kept in manifest.files.items():
        try:
            found = kept_file(directory / name)
        except OSError as e:
            yield f"{name}: {e.strerror}"
            continue
        if found.bytes != kept.bytes:
            yield f"{name}: {found.bytes:,} bytes, where {kept.bytes:,} were written"
        elif found != kept:
            yield f"{name}: its bytes are not those that were written"


def kept_file(path: Path, *, sync: bool = False) -> KeptFile:
    """Read through; with `sync`, it is on disk afterwards."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
        if sync:
            os.fsync(file.fileno())
    return KeptFile(size, digest.hexdigest())


def sync_directory(directory: Path | str) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest(manifest: Manifest) -> str:
    bare = msgspec.structs.replace(manifest, digest="")
    return hashlib.blake2b(msgspec.json.encode(bare), digest_size=32).hexdigest()
