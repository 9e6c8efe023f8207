"""Files that a command was given: by their names, or by the folder that they are in."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trilens.cli.opened_file import STDIN
from trilens.model.errors import ConfigError
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class NamedFile(NamedTuple):
    path: str
    shown: str  # within the folder that was named, where one was: the name may tell the rank
    is_named: bool  # itself: what lies in a folder may be something else


def named_files(paths: Sequence[str], missing: list[Missing], hint: str | None = None) -> list[NamedFile]:
    """ConfigError for a path that cannot be read; what cannot be within a folder is added to `missing`."""
    return [file for path in paths for file in _of(path, missing, hint)]


def _of(path: str, missing: list[Missing], hint: str | None) -> Iterator[NamedFile]:
    if path == STDIN:
        yield NamedFile(path, "stdin", True)
        return
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - Path does not tell why it cannot
    except FileNotFoundError as e:
        raise ConfigError(f"no such file or folder: {printable(path)}", hint=hint) from e
    except (OSError, ValueError) as e:
        raise ConfigError(f"cannot read {printable(path)}: {_reason(e)}", hint=hint) from e
    if not is_folder:
        yield NamedFile(path, printable(path), True)
        return
    for file in sorted(_below(path, missing)):
        yield NamedFile(file, printable(os.path.relpath(file, path)), False)


def _below(folder: str, missing: list[Missing]) -> Iterator[str]:
    def not_listed(error: OSError) -> None:
        if error.filename == folder:
            raise ConfigError(f"cannot read {printable(folder)}: {_reason(error)}") from error
        _add(missing, os.path.relpath(error.filename, folder), error)

    for here, folders, names in os.walk(folder, onerror=not_listed):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(here, name)
            if name.startswith("."):
                continue
            try:
                if stat.S_ISREG(file.stat().st_mode):  # not a pipe, which would be waited for
                    yield str(file)
            except OSError as e:
                _add(missing, os.path.relpath(file, folder), e)


def printable(name: str) -> str:
    """Names of files may be any bytes."""
    return os.fsencode(name).decode("utf-8", "replace")


def _add(missing: list[Missing], name: str, error: OSError) -> None:
    missing.append(Missing(f"{printable(name)}: {_reason(error)}", "hand it in so that it can be read"))


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
