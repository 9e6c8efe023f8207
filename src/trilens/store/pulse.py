"""Whether a ClickHouse server says anything. Queries may rightly take long; this question may not."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Final, TypeVar

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_AGAIN_S: Final = 1.0  # after one that was not answered
_TIMEOUT_S: Final = 8.0  # it is answered from no data, by a server that is busy too
_MOST_MISSED: Final = 2  # together with the others: a server that says nothing is known within 22 s
_LOOK_S: Final = 0.25  # how often who waits for a statement looks whether to go on


class Pulse:
    """Thread-safe. Only silence counts: who refuses, or answers nonsense, has told whoever asks for more."""

    def __init__(self, url: str) -> None:
        """`url` is the server's root."""
        self._url = f"{url}/ping"
        self._missed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="store-pulse", daemon=True)
        self._thread.start()

    @property
    def silence(self) -> str | None:
        """In words, while nothing is to be waited for."""
        if self._missed < _MOST_MISSED:
            return None
        return f"{self._url} did not answer {self._missed} times, in {_TIMEOUT_S:g} s each"

    def unless_silent(self, do: Callable[[], T]) -> T:
        """What `do` gives, or TimeoutError as soon as the server is silent. It then goes on in its thread
        until its own time is over: what blocks cannot be stopped."""
        self._check()
        answer: Future[T] = Future()

        def work() -> None:
            try:
                answer.set_result(do())
            except BaseException as e:  # noqa: BLE001 - whoever waits raises it
                answer.set_exception(e)

        threading.Thread(target=work, name="store-statement", daemon=True).start()
        while not wait([answer], _LOOK_S).done:
            self._check()
        return answer.result()

    def stop(self) -> None:
        """Does not wait for a question that is under way."""
        self._stop.set()

    def _check(self) -> None:
        if (silence := self.silence) is not None:
            raise TimeoutError(silence)

    def _work(self) -> None:
        with httpx.Client(timeout=_TIMEOUT_S) as client:
            while not self._stop.wait(_AGAIN_S if self._missed else _EVERY_S):
                self._note(is_heard=self._asks(client))

    def _asks(self, client: httpx.Client) -> bool:
        """Whether anything came back."""
        try:
            with client.stream("GET", self._url):
                return True
        except httpx.TimeoutException:
            return False
        except httpx.HTTPError:
            return True
        except Exception as e:  # a thread that ends would leave "silent", or "heard", for ever
            log.error("whether the engine says anything is not known", exc_info=e)
            return True

    def _note(self, *, is_heard: bool) -> None:
        was_silent = self.silence is not None
        self._missed = 0 if is_heard else self._missed + 1
        if self.silence is not None and not was_silent:
            log.error("the engine says nothing: nobody waits for it until it does", extra={"url": self._url})
        elif was_silent and is_heard:
            log.info("the engine answers again", extra={"url": self._url})
