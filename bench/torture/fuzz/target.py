"""One thing that is read from outside, and what happens to one input."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hypothesis.strategies import SearchStrategy

SLOWEST_S: Final = 20.0  # of one input, on a machine that does other things too
# What takes the square of so many takes too long.
LARGE: Final = 1_000_000  # bytes
MANY: Final = 25_000  # things

# What reading never does: whoever made the input would have had it done.
_FORBIDDEN: Final = frozenset(
    {
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.spawn",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.mkdir",
        "os.rmdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "subprocess.Popen",
        "pickle.find_class",
        "socket.connect",
    }
)
_WRITING: Final = frozenset("wax+")  # modes of open(), and flags of os.open(), which has no mode
_WRITING_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Target(NamedTuple):
    """`take` reads an input as the server or a command would, and raises nothing but a TrilensError or one of
    `refusals`. `seeds` are inputs as they come in earnest, and `shaped` draws more of them. In those of
    `large` one thing comes LARGE or MANY times: a fuzzer makes none that are so long."""

    name: str
    what: str
    take: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    shaped: Callable[[], SearchStrategy[bytes]]
    large: Callable[[], Iterable[bytes]] = tuple
    refusals: tuple[type[Exception], ...] = ()


class TooSlow(BaseException):
    """One input took longer than any may. What catches every Exception is not to catch this."""


class Forbidden(BaseException):
    """Reading an input did something that reading never does."""


def survives(target: Target, data: bytes, *, slowest_s: float = SLOWEST_S) -> bool:
    """Whether it was taken; False where it was refused as it should be. Anything else is raised."""
    with _in_time(slowest_s), _watched():
        try:
            target.take(data)
        except (TrilensError, *target.refusals):  # type: ignore[misc]  # a tuple of such is one
            return False
    return True


@contextmanager
def _in_time(slowest_s: float) -> Iterator[None]:
    """Only in a main thread, which has the signals."""

    def ring(_number: int, _frame: object) -> None:
        raise TooSlow(f"an input took more than {slowest_s:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, slowest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Watch:
    """An audit hook cannot be taken away again, so there is one, which mostly looks away."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_there = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event in _FORBIDDEN or (event == "open" and _writes(*arguments[1:])):
            raise Forbidden(f"{event}{arguments!r}")


def _writes(mode: str | None, flags: int) -> bool:
    return bool(_WRITING & set(mode or "")) or bool(flags & _WRITING_FLAGS)


_watch = _Watch()


@contextmanager
def _watched() -> Iterator[None]:
    if not _watch.is_there:
        sys.addaudithook(_watch)
        _watch.is_there = True
    compiles, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )  # a first import would be seen as a write
    _watch.is_on = True
    try:
        yield
    finally:
        _watch.is_on = False
        sys.dont_write_bytecode = compiles
