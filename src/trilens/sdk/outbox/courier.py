"""Takes the oldest lines that wait to the server, one request at a time, and forgets what was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from trilens.sdk.outbox.answer import NotTaken, Refused, Taken, TooLarge, Trouble

if TYPE_CHECKING:
    from trilens.sdk.guard import Guard
    from trilens.sdk.outbox.line import Line
    from trilens.sdk.outbox.transport import Transport

REQUEST_BYTES: Final = 1024 * 1024


class Waiting(Protocol):
    def oldest(self, limit_bytes: int) -> list[Line]: ...

    def forget(self, seq: int) -> None: ...


class Courier:
    def __init__(self, transport: Transport, guard: Guard) -> None:
        self._transport = transport
        self._guard = guard
        self._limit_bytes = REQUEST_BYTES

    def take(
        self, waiting: Waiting, *, for_dead: bool = False, deadline_s: float | None = None
    ) -> Taken | NotTaken | None:
        """None when nothing waits. `Taken` also when the server will never take the oldest, which is lost."""
        lines = waiting.oldest(self._limit_bytes)
        if not lines:
            return None
        body = b"".join(line.text for line in lines)
        answer = self._transport.post(body, for_dead=for_dead, deadline_s=deadline_s)
        match answer:
            case Taken(seq=seq) if seq is not None and seq >= lines[0].seq:
                self._limit_bytes = min(REQUEST_BYTES, self._limit_bytes * 2)
                waiting.forget(min(seq, lines[-1].seq))  # what it was not sent, it cannot have
            case Taken():
                return NotTaken(Trouble.WRONG, f"batch {lines[0].seq} was sent, taken is {answer.seq}")
            case Refused(seq=seq, why=why) if lines[0].seq <= seq <= lines[-1].seq:
                self._lose(waiting, seq, why)
            case Refused():
                return NotTaken(Trouble.WRONG, f"it refuses batch {answer.seq}, which was not sent")
            case TooLarge() if len(lines) == 1:
                self._lose(waiting, lines[0].seq, f"{len(body)} bytes: {answer.why}")
            case TooLarge():
                self._limit_bytes = len(body) // 2
            case NotTaken():
                return answer
        return answer if isinstance(answer, Taken) else Taken(None, None)

    def _lose(self, waiting: Waiting, seq: int, why: str) -> None:
        """Those before it were taken."""
        self._guard.lost("records", why=f"the server refuses a batch: {why}")
        waiting.forget(seq)
