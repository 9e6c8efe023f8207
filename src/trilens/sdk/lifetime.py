"""How the program ends, and what a fork does: hooks that are set once, for all runs of the process.

An uncaught exception, and `sys.exit` with a failure, make a run `failed`. Both hooks call what was there
before them, so the program ends as it would have.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from trilens.sdk.guard import describe

if TYPE_CHECKING:
    from types import TracebackType


class Living(Protocol):
    @property
    def last_sign_ns(self) -> int:
        """When the program last did something with it, by the monotonic clock."""

    def finish(self, *, error: str | None = None) -> None: ...

    def leave_to_parent(self) -> None: ...


class _Failure(NamedTuple):
    text: str
    at_ns: int
    is_interrupt: bool = False


_runs: list[Living] = []
_failure: _Failure | None = None
_hooked = False
_exit_of: int | None = None  # the process whose end is waited for


def join(run: Living) -> None:
    _hook()
    _wait_for_exit()
    _runs.append(run)


def leave(run: Living) -> None:
    if run in _runs:
        _runs.remove(run)


def latest() -> Living | None:
    """The run that began last and has not ended."""
    return _runs[-1] if _runs else None


def _hook() -> None:
    global _hooked
    if _hooked:
        return
    _hooked = True
    os.register_at_fork(after_in_child=_after_fork)
    hook, leave_program = sys.excepthook, sys.exit

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None, /) -> None:
        _remember(describe(error), is_interrupt=isinstance(error, KeyboardInterrupt))
        hook(kind, error, trace)

    def exit(status: Any = None, /) -> Any:
        if status not in (None, 0) and threading.current_thread() is threading.main_thread():
            _remember(f"exit status {status}" if isinstance(status, int) else str(status)[:500])
        leave_program(status)

    sys.excepthook = excepthook
    sys.exit = exit


def _wait_for_exit() -> None:
    global _exit_of
    if os.getpid() == _exit_of:
        return
    if _exit_of is None:
        atexit.register(_at_exit)
    _exit_of = os.getpid()
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing import util  # its children leave without what atexit was told

        util.Finalize(None, _at_exit, exitpriority=100)


def _remember(failure: str, *, is_interrupt: bool = False) -> None:
    global _failure
    _failure = _Failure(failure, monotonic_ns(), is_interrupt)


def _at_exit() -> None:
    if os.getpid() != _exit_of:
        return
    in_flight = sys.exc_info()[1]  # of a child of multiprocessing, on its way out
    if in_flight is not None and not isinstance(in_flight, SystemExit):
        _remember(describe(in_flight))
    while _runs:
        run = _runs[-1]
        # A SystemExit that the program caught, and then trained on, was not the end.
        failed = _failure is not None and _failure.at_ns >= run.last_sign_ns
        run.finish(error=_failure.text if failed and _failure is not None else None)
        leave(run)
    if _failure is not None and _failure.is_interrupt:
        _end_as_interrupted()


def _end_as_interrupted() -> None:
    """Python ends by the signal itself after a KeyboardInterrupt that nobody caught, and forgets that it has
    to when any text is evaluated meanwhile, as the making of a named tuple does. This reminds it."""
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")  # noqa: S102 - a text of our own


def _after_fork() -> None:
    while _runs:
        _runs.pop().leave_to_parent()
