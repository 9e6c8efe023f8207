"""What the HTTP API needs from the rest of the system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.model.labels import LabelFrame
    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.promql.engine import Engine


class EngineFactory(Protocol):
    def __call__(self, lookback_ms: int) -> Engine: ...


class MetricDescription(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def unit(self) -> str: ...


class Catalog(Protocol):
    """Which series there are, by their labels."""

    def label_names(
        self, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]: ...

    def label_values(
        self, name: str, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]: ...

    def series_labels(
        self, matchers: tuple[Matcher, ...], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> LabelFrame: ...

    def labels_in_memory(self) -> LabelFrame:
        """Of the series that take memory now."""

    def metadata(self, metric: str | None) -> Mapping[str, Sequence[MetricDescription]]: ...
