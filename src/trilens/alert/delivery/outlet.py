"""One place that messages go to. A receiver has one, or one for each of its servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Channel(Protocol):
    """How messages get there. Used by one thread."""

    def send(self, bodies: Sequence[bytes]) -> None:
        """Returns when they are taken. Raises ReceiverAway or NotificationRefused."""

    def test(self) -> None:
        """A message that says it is only a test; raises the same."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outlet:
    name: str  # what its queue goes by
    receiver: str
    kind: str
    where: str  # for people, without secrets
    most: int  # messages in one go
    settings: object  # what its channel is made of: two that have the same are the same
    open: Callable[[], Channel] = field(compare=False)  # raises ConfigError: a secret's file may be gone

    @property
    def takes_alerts(self) -> bool:
        """Alerts as they are; all others are told of incidents."""
        return self.kind == "alertmanager"
