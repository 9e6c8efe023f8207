"""Sends what dead processes left, for a person who asks for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.sdk.outbox.answer import NotTaken, Taken, Trouble
from trilens.sdk.outbox.backoff import Backoff
from trilens.sdk.outbox.courier import Courier
from trilens.sdk.outbox.left import left_behind
from trilens.sdk.outbox.transport import HttpTransport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.sdk.guard import Guard
    from trilens.sdk.outbox.folder import About
    from trilens.sdk.outbox.left import LeftBehind

_PATIENCE_S: Final = 30.0  # with a server that is busy


class Sent(NamedTuple):
    about: About
    server: str
    sent_bytes: int
    left_bytes: int
    error: str | None  # why something is left


def send_left(root: Path, guard: Guard, server: str | None, token: str | None) -> Iterator[Sent]:
    """To the server that each process was sending to, unless one is named for all."""
    for left in left_behind(root, guard):
        target = server or left.about.server
        before = left.bytes_left
        transport = HttpTransport(target, token)
        try:
            error = _send(left, Courier(transport, guard))
        finally:
            transport.close()
            left.close()
        yield Sent(left.about, target, before - left.bytes_left, left.bytes_left, error)


def _send(left: LeftBehind, courier: Courier) -> str | None:
    backoff, until_s = Backoff(), time.monotonic() + _PATIENCE_S
    while (answer := courier.take(left, for_dead=True)) is not None:
        if isinstance(answer, Taken):
            until_s = time.monotonic() + _PATIENCE_S
            continue
        wait_s = backoff.failed(answer.retry_after_s)
        if answer.trouble is not Trouble.BUSY or time.monotonic() + wait_s > until_s:
            return _why(answer)
        time.sleep(wait_s)
    return None


def _why(answer: NotTaken) -> str:
    return f"it {answer.trouble.value} ({answer.why})"
