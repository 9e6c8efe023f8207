"""A file that the settings name, read; or one line that says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def stamp_of(file: Path) -> tuple[int, int, int]:
    """Changes when the file does; a mounted secret is a link to another file then. Raises OSError."""
    found = file.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_text(file: Path, what: str) -> str:
    """`what` is the file's role in the error: "cannot read `what` `file`: No such file or directory"."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"cannot read {what} {file}: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"cannot read {what} {file}: it is not UTF-8") from e
