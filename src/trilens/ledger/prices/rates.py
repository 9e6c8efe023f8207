"""What the ledger asks of a price book."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from trilens.model.machine import Machine
    from trilens.model.workload import Doubt


class Rate(NamedTuple):
    """What a whole node costs an hour, from one moment to another. `per_hour` is None where no price fits:
    a gap that is shown, never zero."""

    from_ms: int
    to_ms: int
    per_hour: Decimal | None
    currency: str = ""
    price: str = ""  # its name in the book
    purchase: str = ""  # as the price has it, where the machine does not tell
    components: Mapping[str, Decimal] = {}  # of an hour: gpu, cpu, memory, storage, network, power
    doubts: tuple[Doubt, ...] = ()


class PriceBook(Protocol):
    @property
    def digest(self) -> str:
        """Of all that is in it: an hour that was computed with another is computed again."""

    def rates(self, machine: Machine, gpus: int, from_ms: int, to_ms: int) -> Sequence[Rate]:
        """One after the other, from `from_ms` to `to_ms` without a hole. `gpus` is how many the node has."""
