"""A store without rows, kept beside a night: to make all tables takes longer than to fill them."""

from __future__ import annotations

import tarfile
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.options import StoreOptions
from trilens.store.retention import apply_retention

_FILE: Final = "empty-{}.tar.gz"


def keep_empty(folder: Path) -> None:
    with TemporaryDirectory(prefix="trilens-empty-") as directory:
        with Engine.open(directory) as engine:
            migrate(engine)
            apply_retention(engine, StoreOptions(data_dir=Path(directory)).kept_for)
        with tarfile.open(_file(folder), "w:gz") as archive:
            archive.add(directory, ".")


def lay_empty(folder: Path, data_dir: Path) -> None:
    """Nothing is laid where none is kept that this engine has made: it makes the tables itself."""
    file = _file(folder)
    if file.exists():
        with tarfile.open(file) as archive:
            archive.extractall(data_dir, filter="data")


def _file(folder: Path) -> Path:
    return folder / _FILE.format(metadata.version("chdb-core"))
