"""All that finds out who asks, what that one may do, how often, and what is remembered of it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trilens.model.errors import TrilensError
from trilens.serve.access.callers import Callers
from trilens.serve.access.limits import Limits
from trilens.serve.access.trail import AuditTrail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.serve.access.doors import Door

log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0  # so long after it was revoked elsewhere, a token may still let somebody in


@dataclass(slots=True)
class Access:
    doors: Sequence[Door] = ()
    callers: Callers = field(default_factory=Callers)
    limits: Limits = field(default_factory=Limits)
    trail: AuditTrail = field(default_factory=AuditTrail)
    wish: str = "this server does not know you"


class Lookout:
    """A thread that has others look, every few seconds, at what other servers changed."""

    def __init__(self, looks: Sequence[Callable[[], None]], at_end: Callable[[], None]) -> None:
        self._looks = looks
        self._at_end = at_end
        self._troubles = [""] * len(looks)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trilens-access", daemon=True)

    @property
    def troubles(self) -> list[str]:
        """What of the last looks did not succeed, so that all stays as it was known before."""
        return [trouble for trouble in self._troubles if trouble]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._at_end()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        self._troubles = [
            self._try(look, before) for look, before in zip(self._looks, self._troubles, strict=True)
        ]

    def _try(self, look: Callable[[], None], before: str) -> str:
        """What is wrong now; empty where nothing is."""
        try:
            look()
        except TrilensError as e:
            if str(e) != before:  # once, however often it is tried
                log.error("who may come in stays as it was known before", extra={"error": str(e)})
            return str(e)
        except Exception:
            log.exception("looking at who may come in failed in a way that was not foreseen")
        return ""
