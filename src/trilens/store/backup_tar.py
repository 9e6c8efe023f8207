"""A backup as one tar file: made piece by piece, with the manifest last, and unpacked again."""

from __future__ import annotations

import tarfile
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from trilens.model.errors import BackupError, BackupMisnamed
from trilens.store.backup_manifest import MANIFEST, TABLES, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 1 << 20
_END: Final = bytes(2 * tarfile.BLOCKSIZE)


def tar_pieces(backup: Path, *, and_delete: bool = False) -> Iterator[bytes]:
    """One that ends early has no manifest, and so is no backup. With `and_delete`, a file goes as soon as
    all of it was taken, so that the tar file can take its room."""
    manifest = read_manifest(backup)
    for name in (*manifest.files, MANIFEST):
        path = backup / name
        with path.open("rb") as file:
            header = tarfile.TarInfo(name)
            header.size, header.mtime, header.mode = path.stat().st_size, manifest.made_ms // 1000, 0o600
            yield header.tobuf()
            while piece := file.read(_PIECE):
                yield piece
            yield bytes(-header.size % tarfile.BLOCKSIZE)
        if and_delete:
            path.unlink()
    yield _END


def unpack(source: Path | IO[bytes], target: Path) -> Path:
    """`target`, which is made. A part of a backup in a tar file raises BackupError, what is none at all
    BackupMisnamed."""
    target.mkdir(mode=0o700)
    try:
        file = source.open("rb") if isinstance(source, Path) else nullcontext(source)
        with file as opened, tarfile.open(fileobj=opened, mode="r|") as archive:
            archive.extractall(target, filter="data")
    except (tarfile.TarError, EOFError) as e:
        raise _refusal(source, target, str(e)) from e
    if not (target / MANIFEST).is_file():
        raise _refusal(source, target, f"it has no {MANIFEST}")
    return target


def _refusal(source: Path | IO[bytes], unpacked: Path, why: str) -> BackupError:
    what = source if isinstance(source, Path) else "what came"
    begins_as_one = (unpacked / TABLES).is_dir()
    error = BackupError if begins_as_one else BackupMisnamed
    return error(f"{what} is not a whole tar file of a backup: {why}")
