"""What is noted of a step in the program's own thread, and what belongs to it that is not known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Reading(NamedTuple):
    values: Mapping[str, float] = {}
    device_phases_us: Mapping[str, int] = {}


class Later(Protocol):
    """Something the device has not computed yet. Asked in the program's own thread, once at a step's end."""

    def ready(self) -> bool:
        """Never waits. Once it is, it stays so, and to ask again costs nothing."""

    def read(self) -> Reading: ...


class Batch(Protocol):
    """Which samples a step saw. Told raw, cheaply; `told` is called by the background thread."""

    @property
    def size(self) -> int | None: ...

    def told(self) -> dict[str, object]:
        """As in `batches` of the protocol, without n, step and i."""


# n, step, start and end in ns, phases in ns, values, device phases in us, samples, tokens, epoch, batches,
# laters. A plain tuple: it is made once a step in the program's time.
StepNote: TypeAlias = tuple[
    int,
    int,
    int,
    int,
    dict[str, int],
    dict[str, float],
    dict[str, int],
    int | None,
    int | None,
    int | None,
    "list[Batch] | None",
    "list[Later] | None",
]


class DeviceClock(Protocol):
    """What marks the phases on the device too, where there is one."""

    def phase_changed(self, left: str | None, entered: str | None) -> None: ...


class Discarding:
    """Stands where finished steps go, in a process that must not tell them (any more)."""

    def __init__(self, refuse: Callable[[], None] | None = None) -> None:
        self._refuse = refuse

    def append(self, note: StepNote) -> None:
        if self._refuse is not None:
            self._refuse()

    def __len__(self) -> int:
        return 0
