"""Which rows are shown, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trilens.cli.top.picture import GRAVITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.cli.top.columns import Column
    from trilens.cli.top.picture import Workload

Of = TypeVar("Of")


@dataclass(slots=True)
class Order(Generic[Of]):
    """By one of the columns; `turned` is the other way round than one usually looks for."""

    columns: Sequence[Column[Of]]
    at: int = 0
    turned: bool = False

    @property
    def column(self) -> Column[Of]:
        return self.columns[self.at]

    @property
    def descends(self) -> bool:
        return self.column.descends != self.turned

    def move(self, by: int, shown: Sequence[Column[Of]]) -> None:
        """To the next of the columns that are shown."""
        places = [at for at, column in enumerate(self.columns) if column in shown]
        here = places.index(self.at) if self.at in places else 0
        self.at, self.turned = places[(here + by) % len(places)], False

    def sorted(self, rows: Iterable[Of]) -> list[Of]:
        """What is unknown comes last, whichever way it goes."""
        keyed = [(self.column.sorts(row), row) for row in rows]
        known = [(key, row) for key, row in keyed if key is not None]
        known.sort(key=_key, reverse=self.descends)
        return [row for _, row in known] + [row for key, row in keyed if key is None]


def worst_first(workloads: Iterable[Workload]) -> list[Workload]:
    """What is wrong, then what costs most: the order in which they are listed before any other is asked for,
    and among those that are alike in another."""
    return sorted(
        workloads, key=lambda one: (one.is_over, GRAVITY[one.health], -(one.per_hour or 0), one.name)
    )


def _key(pair: tuple[Any, object]) -> Any:
    return pair[0]
