"""/federate: the newest samples of chosen series as Prometheus text, for another Prometheus to scrape."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.labels import METRIC_NAME
from trilens.model.series import SelectRequest, stale_mask
from trilens.serve.access.seen_series import seen_series
from trilens.serve.access.sight import sight_of
from trilens.serve.catalog import matcher_sets
from trilens.serve.encoding import number_text
from trilens.serve.envelope import accepts_gzip, pack, packed_response
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.matcher import Matcher
    from trilens.model.query import QueryGuard
    from trilens.promql.source import SeriesSource
    from trilens.serve.runner import QueryRunner

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_ANY_NAME: Final = "escaping=allow-utf-8"  # what a scraper says that can read names such as "gpu.power"
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Newest(NamedTuple):
    """A series and its last sample."""

    labels: Mapping[str, str]
    t_ms: int
    value: float


class FederateApi:
    def __init__(self, source: SeriesSource, runner: QueryRunner, *, lookback_ms: int) -> None:
        self._source = source
        self._runner = runner
        self._lookback_ms = lookback_ms

    async def federate(self, request: Request) -> Response:
        params = await read_params(request, 0)
        source = seen_series(self._source, sight_of(request))
        gzip = accepts_gzip(request)
        any_name = _ANY_NAME in request.headers.get("accept", "")
        guard = self._runner.guard()
        now_ms = int(time.time() * 1000)

        def work() -> tuple[bytes, bool]:
            wanted = matcher_sets(params)
            found = (one for matchers in wanted for one in self._newest(source, matchers, now_ms, guard))
            return pack(exposition(found, any_name=any_name).encode(), gzip)

        kind = f"{_TEXT}; {_ANY_NAME}" if any_name else _TEXT
        return packed_response(await self._runner.run(request, guard, work), kind)

    def _newest(
        self, source: SeriesSource, matchers: tuple[Matcher, ...], now_ms: int, guard: QueryGuard
    ) -> Iterator[Newest]:
        """Of each series the last sample within the lookback; none where that says that it has ended."""
        found = source.select(SelectRequest(matchers, now_ms - self._lookback_ms, now_ms), guard)
        samples = found.samples
        rows = np.flatnonzero(np.diff(samples.offsets))
        last = samples.offsets[rows + 1] - 1
        alive = ~stale_mask(samples.v[last])
        rows, last = rows[alive], last[alive]
        for row, t_ms, value in zip(
            rows.tolist(), samples.t[last].tolist(), samples.v[last].tolist(), strict=True
        ):
            yield Newest(found.labels.labels(row), t_ms, value)


def exposition(found: Iterable[Newest], *, any_name: bool = False) -> str:
    """Each series once, families together, as the text format wants them."""
    families: dict[str, dict[str, str]] = {}
    for labels, t_ms, value in found:
        name = labels.get(METRIC_NAME, "")
        if name:
            shown = _name(name, _METRIC, any_name)
            line = _series_text(shown, labels, any_name)
            families.setdefault(shown, {})[line] = f"{line} {number_text(value)} {t_ms}\n"
    pieces = []
    for name in sorted(families):
        pieces.append(f"# TYPE {name} untyped\n")
        pieces += [families[name][line] for line in sorted(families[name])]
    return "".join(pieces)


def _series_text(name: str, labels: Mapping[str, str], any_name: bool) -> str:
    # An empty instance, as Prometheus writes it, keeps the scraper from adding its own.
    own = {"instance": ""}
    # Of several labels that become one name, the scraper can take one: the one that really has it, if any.
    for key in sorted(
        labels.keys() - {METRIC_NAME}, key=lambda key: (_LABEL.fullmatch(key) is not None, key)
    ):
        own[_name(key, _LABEL, any_name)] = labels[key]
    pairs = [f'{key}="{own[key].translate(_ESCAPES)}"' for key in sorted(own)]
    if name.startswith('"'):
        return f"{{{','.join([name, *pairs])}}}"
    return f"{name}{{{','.join(pairs)}}}"


def _name(name: str, plain: re.Pattern[str], any_name: bool) -> str:
    """As it is where every scraper can read it; else in quotes, or with underscores for older ones."""
    if plain.fullmatch(name):
        return name
    if any_name:
        return f'"{name.translate(_ESCAPES)}"'
    escaped = re.sub(r"[^a-zA-Z0-9_:]" if plain is _METRIC else r"[^a-zA-Z0-9_]", "_", name)
    return f"_{escaped}" if escaped[:1].isdigit() else escaped
