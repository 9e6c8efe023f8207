"""The series of a case: what `diagnose/figures.py` asks of the metrics."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.case_file import CaseSeries
from trilens.diagnose.figures import FIGURES
from trilens.model.errors import TrilensError
from trilens.model.verdict import Missing
from trilens.serve.own_queries import Times

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trilens.diagnose.figures import CaseFigure
    from trilens.serve.own_queries import OwnQueries

_POINTS: Final = 240
_LEAST_STEP_MS: Final = 15_000  # what is scraped comes no more often
_NAME: Final = re.compile(r"\$([a-z]+)")
_FAILED: Final = 3  # that are told of: when the samples cannot be asked, none of them can


class Places(NamedTuple):
    """What a case is about, by the names that stand for it in a query."""

    gpus: Collection[str] = ()
    nodes: Collection[str] = ()
    pods: Collection[str] = ()
    runs: Collection[str] = ()
    namespace: str = ""
    cluster: str = ""
    workload: str = ""


class Series(NamedTuple):
    series: Mapping[str, tuple[CaseSeries, ...]]
    missing: tuple[Missing, ...]


async def ask_series(queries: OwnQueries, places: Places, from_ms: int, to_ms: int, until: float) -> Series:
    """A figure of which the case has no part is not asked for; one that has not come by `until`, by the
    clock of the loop, is missing."""
    step_ms = max(-(-(to_ms - from_ms) // (_POINTS - 1)), _LEAST_STEP_MS)
    moments = (to_ms - from_ms) // step_ms + 1
    times = Times(to_ms - (moments - 1) * step_ms, step_ms, moments)

    async def ask(figure: CaseFigure, query: str) -> tuple[str, tuple[CaseSeries, ...], str]:
        try:
            async with asyncio.timeout_at(until):
                found = await queries.series(query, times)
        except TimeoutError:
            return figure.name, (), "no answer in time"
        except TrilensError as e:
            return figure.name, (), e.message
        return figure.name, tuple(CaseSeries(dict(one.labels), one.t_ms, one.values) for one in found), ""

    asked = [(figure, query) for figure in FIGURES if (query := filled_in(figure.query, places)) is not None]
    answers = await asyncio.gather(*(ask(*one) for one in asked))
    failed = [(name, trouble) for name, _, trouble in answers if trouble]
    missing = tuple(Missing(f"{name}: {trouble}", "trilens doctor looks why") for name, trouble in failed)
    return Series({name: series for name, series, trouble in answers if not trouble}, missing[:_FAILED])


def filled_in(query: str, places: Places) -> str | None:
    """None where it asks for what the case has none of. A series that names no cluster may be of any."""
    told = {
        name: value if isinstance(value, str) else "|".join(re.escape(one) for one in sorted(value))
        for name, value in places._asdict().items()
    }
    told["cluster"] = f"{re.escape(places.cluster)}|" if places.cluster else ".*"
    if any(not told[name] for name in _NAME.findall(query)):
        return None
    return _NAME.sub(lambda found: _quoted(told[found[1]]), query)


def _quoted(value: str) -> str:
    """As it stands between the quotes of a query."""
    return value.replace("\\", "\\\\").replace('"', '\\"')
