"""A store that is closed and opened again, over the same data."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.store.store import Store


@contextmanager
def reopening(open_one: Callable[..., Store]) -> Iterator[Callable[..., Store]]:
    """Each call closes what was open and opens it with other options."""
    opened: list[Store] = []

    def open_again(**changes: object) -> Store:
        while opened:
            opened.pop().close()
        opened.append(open_one(**changes))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()
