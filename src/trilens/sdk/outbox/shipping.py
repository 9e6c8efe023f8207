"""When something is sent: records and heartbeats while all is well, less and less often while it is not."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.sdk.outbox.answer import NotTaken, Taken, Trouble
from trilens.sdk.outbox.backoff import Backoff
from trilens.sdk.outbox.left import left_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trilens.sdk.guard import Guard
    from trilens.sdk.outbox.courier import Courier
    from trilens.sdk.outbox.folder import About
    from trilens.sdk.outbox.left import LeftBehind
    from trilens.sdk.outbox.spool import Spool
    from trilens.sdk.outbox.transport import Transport

SHORTEST_S: Final = 1.0  # whatever a server asks for
LONGEST_S: Final = 30.0
_LOOK_FOR_DEAD_S: Final = 60.0
_ABORT_S: Final = 0.2  # a request that is broken off ends at once


class Addressee(NamedTuple):
    """The server that records are for, and of which rank they are."""

    server: str
    is_named: bool  # else it is the default, and need not be there
    root: Path  # of the spools in which they wait for it
    run: str
    rank: int

    def is_of(self, about: About) -> bool:
        return about.server == self.server

    def is_of_predecessor(self, about: About) -> bool:
        return self.is_of(about) and (about.run, about.rank) == (self.run, self.rank)


class Shipping:
    """A thread of its own. Every `interval_s` it sends what waits, or a heartbeat when nothing does; in
    between, what dead processes left for the same server."""

    def __init__(
        self,
        addressee: Addressee,
        spool: Spool,
        courier: Courier,
        transport: Transport,
        guard: Guard,
        *,
        interval_s: float,
        heartbeat: Callable[[], bytes],
    ) -> None:
        self.interval_s = interval_s
        self.is_reached: bool | None = None  # by the last request; None before the first
        self.returns = 0  # how often the server was there again
        self._addressee = addressee
        self._spool = spool
        self._courier = courier
        self._transport = transport
        self._guard = guard
        self._heartbeat = heartbeat
        self._backoff = Backoff()
        self._wake = threading.Event()
        self._deadline_s: float | None = None  # by the monotonic clock, set when the program ends
        self._dead: Iterator[LeftBehind] = iter(())
        self._being_sent: LeftBehind | None = None
        self._look_again_s = 0.0
        self._is_announced = False  # what earlier lives of this rank left
        self._thread = threading.Thread(target=self._loop, name="trilens-outbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def told(self) -> None:
        """The first records are sent at once, so that a run is seen when it begins."""
        if self.is_reached is None:
            self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Sends what is left, for at most so long."""
        self._deadline_s = time.monotonic() + timeout_s
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._transport.abort()
            self._thread.join(_ABORT_S)

    def _loop(self) -> None:
        wait_s = self.interval_s
        while True:
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._deadline_s is not None:
                break
            due_s = self._guard.run("sending", self._turn)
            wait_s = self.interval_s if due_s is None else due_s
        self._guard.run("sending", self._send_the_rest, self._deadline_s)
        if self._being_sent is not None:
            self._being_sent.close()
        self._transport.close()

    def _turn(self) -> float:
        """Answers in how many seconds the next one is due."""
        due_s = time.monotonic() + self.interval_s
        answer: Taken | NotTaken | None = self._announce_predecessors()
        if answer is None:
            answer = self._courier.take(self._spool) or self._send_heartbeat()
        while isinstance(answer, Taken):
            self._reached(answer)
            if self._deadline_s is not None:
                break
            answer = self._courier.take(self._spool)
            if answer is None and time.monotonic() < due_s:
                answer = self._take_for_dead()
        if isinstance(answer, NotTaken):
            return self._not_reached(answer)
        return max(0.0, due_s - time.monotonic())

    def _announce_predecessors(self, deadline_s: float | None = None) -> NotTaken | None:
        """The beginning of what earlier lives of this rank left goes before anything of this one: a server
        counts attempts in the order in which it hears of them. The rest has time."""
        if self._is_announced:
            return None
        left = left_behind(self._addressee.root, self._guard, self._addressee.is_of_predecessor)
        for predecessor in left:
            answer = self._courier.take(predecessor, for_dead=True, deadline_s=deadline_s)
            predecessor.close()
            if isinstance(answer, NotTaken):
                return answer
        self._is_announced = True
        return None

    def _send_heartbeat(self) -> Taken | NotTaken:
        answer = self._transport.post(self._heartbeat())
        if isinstance(answer, Taken | NotTaken):
            return answer
        return NotTaken(Trouble.WRONG, "it refuses a heartbeat")

    def _take_for_dead(self) -> Taken | NotTaken | None:
        while True:
            if self._being_sent is None:
                self._being_sent = self._next_dead()
            if self._being_sent is None:
                return None
            answer = self._courier.take(self._being_sent, for_dead=True)
            if answer is not None:
                return answer
            self._being_sent.close()
            self._being_sent = None

    def _next_dead(self) -> LeftBehind | None:
        found = next(self._dead, None)
        if found is None and time.monotonic() >= self._look_again_s:
            self._look_again_s = time.monotonic() + _LOOK_FOR_DEAD_S
            self._dead = left_behind(self._addressee.root, self._guard, self._addressee.is_of)
            found = next(self._dead, None)
        return found

    def _send_the_rest(self, deadline_s: float) -> None:
        """A server that is busy is asked again; one that is not there is not waited for."""
        while (left_s := deadline_s - time.monotonic()) > 0:
            answer: Taken | NotTaken | None = self._announce_predecessors(deadline_s)
            if answer is None:
                answer = self._courier.take(self._spool, deadline_s=deadline_s)
            if answer is None:
                return
            if isinstance(answer, Taken):
                self._reached(answer)
                continue
            wait_s = self._not_reached(answer)
            if answer.trouble is not Trouble.BUSY or wait_s > left_s:
                return
            self._wake.wait(wait_s)

    def _reached(self, answer: Taken) -> None:
        self._backoff.succeeded()
        if answer.interval_s is not None:
            self.interval_s = min(max(answer.interval_s, SHORTEST_S), LONGEST_S)
        if self.is_reached is False:
            self.returns += 1
            self._guard.say("server is back", f"{self._addressee.server} takes records again")
        self.is_reached = True

    def _not_reached(self, answer: NotTaken) -> float:
        """Answers in how many seconds to try again."""
        self.is_reached = False
        who = self._addressee
        if answer.trouble is Trouble.AWAY and not who.is_named:
            text = f"no server at {who.server}: records wait in {who.root}. TRILENS_SERVER names another"
            self._guard.say("no server", text)
        else:
            text = f"{who.server} {answer.trouble.value} ({answer.why}): records wait in {who.root}"
            self._guard.say(f"server {answer.trouble.name}", text, level="warning")
        return self._backoff.failed(answer.retry_after_s)
