"""Inputs as they come in earnest: files of the shared corpora and of the tests, read where they lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parents[3]
_LARGEST: Final = 100_000  # bytes; from smaller ones more is learnt in the same time


def shared(pattern: str) -> Iterator[bytes]:
    """Nothing where the corpora do not lie beside the checkout."""
    beside = _ROOT.parent / "shared" / "corpora"
    yield from _files(Path(os.environ.get("TRILENS_CORPORA") or beside), pattern)


def of_tests(pattern: str) -> Iterator[bytes]:
    yield from _files(_ROOT / "tests", pattern)


def _files(folder: Path, pattern: str) -> Iterator[bytes]:
    for file in sorted(folder.glob(pattern)):
        if file.is_file():
            yield file.read_bytes()[:_LARGEST]
