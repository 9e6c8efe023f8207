"""What a person should know about an answer: warnings and infos with Prometheus's meaning and wording."""

from __future__ import annotations

from typing import Final

from trilens.promql.format import number

_COUNTER_SUFFIXES: Final = ("_total", "_sum", "_count", "_bucket")


class Annotations:
    """Collects each remark once, in the order of first sight."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._warnings: dict[str, None] = {}
        self._infos: dict[str, None] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    @property
    def infos(self) -> tuple[str, ...]:
        return tuple(self._infos)

    def from_source(self, warnings: tuple[str, ...]) -> None:
        self._warnings.update(dict.fromkeys(warnings))

    def quantile_out_of_range(self, q: float, pos: int) -> None:
        self._warn(f"quantile value should be between 0 and 1, got {number(q)}", pos)

    def ratio_out_of_range(self, ratio: float, capped: float, pos: int) -> None:
        self._warn(
            f"ratio value should be between -1 and 1, got {number(ratio)}, capping to {number(capped)}", pos
        )

    def bad_bucket(self, le: str, metric: str, pos: int) -> None:
        self._warn(
            f'bucket label "le" is missing or has a malformed value of {quote(le)}{_named(metric)}', pos
        )

    def sort_in_range(self, pos: int) -> None:
        self._warn("sort is ineffective for range queries since results are always ordered by labels", pos)

    def perhaps_no_counter(self, metric: str, pos: int) -> None:
        if metric and not metric.endswith(_COUNTER_SUFFIXES):
            suffixes = "/".join(_COUNTER_SUFFIXES)
            self._info(
                f"metric might not be a counter, name does not end in {suffixes}: {quote(metric)}", pos
            )

    def not_monotonic(self, metric: str, pos: int) -> None:
        self._info(
            "input to histogram_quantile needed to be fixed for monotonicity (see "
            "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)"
            f"{_named(metric)}",
            pos,
        )

    def _warn(self, message: str, pos: int) -> None:
        self._warnings[f"PromQL warning: {message} ({self._place(pos)})"] = None

    def _info(self, message: str, pos: int) -> None:
        self._infos[f"PromQL info: {message} ({self._place(pos)})"] = None

    def _place(self, pos: int) -> str:
        before = self._query[:pos]
        return f"{before.count(chr(10)) + 1}:{pos - before.rfind(chr(10))}"


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _named(metric: str) -> str:
    return f" for metric name {quote(metric)}" if metric else ""
