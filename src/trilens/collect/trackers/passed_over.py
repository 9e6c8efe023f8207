"""What could not be read of a tracker: each is said once, and tried again in every pass."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


class PassedOver:
    def __init__(self, kind: str) -> None:
        """`kind` is what is passed over: a file, a run."""
        self._kind = kind
        self._said: set[str] = set()

    def say(self, name: str, error: object) -> None:
        if name not in self._said:
            self._said.add(name)
            log.warning(
                "%s is passed over",
                self._kind,
                extra={"passed_over": name, "error": str(error) or repr(error)},
            )

    def was_read(self, name: str) -> None:
        self._said.discard(name)
