"""What GPUs and inference servers said of themselves, by minute, wherever the samples are.

Asked hour by hour, a query for each of a few figures, in the vocabulary of the recording rules. Of minutes in
which nothing was recorded (the rules were not there yet, or are not on that server) the fields of
dcgm-exporter are asked themselves.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.ledger.source import GpuMinutes, ServingMinutes, Signals
from trilens.model.errors import TrilensError
from trilens.serve.own_queries import Matrix, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, TypeVar

    from numpy.typing import NDArray

    from trilens.serve.asked_loop import AskedLoop
    from trilens.serve.own_queries import OwnQueries

    _T = TypeVar("_T")

MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * MINUTE_MS
_ANSWER_S: Final = 120.0
_HOUR_S: Final = 3 * _ANSWER_S  # one query after the other, where one decides about the next
# Samples of four hours lie together on disk: one of these hours takes as long to read as all.
_BLOCK_MS: Final = 4 * _HOUR_MS
_FRESH_S: Final = 60.0  # hours are computed one after the other, and each looks at the one before it as well
_UNUSED_S: Final = 600.0  # an hour of 10,000 GPUs is 20 MB
_KEPT: Final = 2
_SETTLED_MS: Final = 2 * MINUTE_MS  # until then more may come of a minute, in the ordinary course

_GPU: Final = ("UUID", "GPU_I_ID")
_POD: Final = ("cluster", "namespace", "pod")

# Clocks held down by the hardware, by heat or by the power brake. Not by the software power cap, 0x4: that is
# what a GPU at full load does.
_SLOWED: Final = 0x8 | 0x20 | 0x40 | 0x80


class _Figure(NamedTuple):
    """A figure of each GPU: how it is recorded, and how dcgm-exporter says it."""

    name: str  # for people
    recorded: str
    raw: str


def _recorded(selector: str, function: str = "last_over_time") -> str:
    return f"max by (UUID, GPU_I_ID) ({function}({selector}[1m]))"


def _raw(selector: str, below: str, function: str = "last_over_time") -> str:
    """`below`: what is more is no reading, but DCGM's way to say that there is none."""
    told = f"{function}({selector}[1m]) < {below}"
    return f'max by (UUID, GPU_I_ID) (label_replace({told}, "UUID", "$1", "gpu_uuid", "(.+)"))'


_UTILIZATION: Final = _Figure(
    "utilisation",
    _recorded("trilens:gpu_utilization:ratio", "avg_over_time"),
    f"{_raw('DCGM_FI_DEV_GPU_UTIL', '101', 'avg_over_time')} / 100",
)
_ENGINE: Final = _Figure(
    "engine activity",
    _recorded("trilens:engine_active:ratio", "avg_over_time"),
    _raw("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "2", "avg_over_time"),
)
_SM: Final = _Figure("SM activity", _recorded("trilens:sm_active:ratio"), _raw("DCGM_FI_PROF_SM_ACTIVE", "2"))
_TENSOR: Final = _Figure(
    "tensor activity", _recorded("trilens:tensor_active:ratio"), _raw("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "2")
)
_POWER: Final = _Figure("power", _recorded("trilens:gpu_power:watts"), _raw("DCGM_FI_DEV_POWER_USAGE", "1e5"))
_REASONS: Final = _Figure(
    "clock event reasons",
    _recorded("trilens:gpu_clock_event_reasons:mask"),
    _raw('{__name__=~"DCGM_FI_DEV_(CLOCK_THROTTLE|CLOCKS_EVENT)_REASONS"}', "2147483632"),
)
_STUCK: Final = _Figure(
    "suspect telemetry", _recorded("trilens:gpu_profiling_stuck:bool", "max_over_time"), ""
)


def _of_pods(recorded: str) -> str:
    """What a server was scraped for, put to the pod that it is in."""
    return (
        "sum by (cluster, namespace, pod) ("
        f'label_replace({recorded}, "scraped_cluster", "$1", "cluster", "(.*)")'
        " * on (scraped_cluster, job, instance) group_left (cluster, namespace, pod)"
        ' trilens:inference_server:info{pod!=""})'
    )


_RUNNING: Final = _of_pods("trilens:inference_running_scraped:count")
_REQUESTS: Final = _of_pods("trilens:inference_requests_scraped:per_second")
_TOKENS: Final = _of_pods("trilens:inference_completion_tokens_scraped:per_second")


class _Piece(NamedTuple):
    """What is asked at once. Of what is settled nothing more comes, in the ordinary course."""

    from_ms: int
    to_ms: int
    is_settled: bool


class _Read(NamedTuple):
    signals: Signals
    at_s: float
    used_s: float  # last


class LedgerSignals:
    """Satisfies the ledger's SignalSource; may be called from any thread but that of the server's loop."""

    def __init__(
        self,
        queries: OwnQueries,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queries = queries
        self._now_ms = now_ms
        self._clock_s = clock_s
        self._loop: AskedLoop | None = None
        self._kept: dict[_Piece, _Read] = {}

    def ask_in(self, loop: AskedLoop) -> None:
        """Queries belong to the server's loop, where the connections to another Prometheus are."""
        self._loop = loop

    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        """For want of an answer it does not raise: what could not be asked is in `trouble`."""
        pieces = _pieces(from_ms, to_ms, self._now_ms() - _SETTLED_MS)
        return _joined(from_ms, [_cut(self._read(piece, is_open), from_ms, to_ms) for piece in pieces])

    def serving(self, from_ms: int, to_ms: int) -> Signals:
        """Of inference servers alone, which is little: for longer spans."""
        hours = []
        for begin_ms, end_ms in _hours(from_ms, to_ms):
            asking = _Asking(self._queries, begin_ms, end_ms)
            found = self._wait(asking.serving())
            nothing = np.zeros((0, found.requests.shape[1]))
            gpus = GpuMinutes(begin_ms, {}, nothing, nothing, nothing, nothing)
            hours.append(Signals(gpus, found, tuple(asking.trouble)))
        return _joined(from_ms, hours)

    def _read(self, piece: _Piece, is_open: bool) -> Signals:
        now_s = self._clock_s()
        for unused in [one for one, read in self._kept.items() if now_s - read.used_s >= _UNUSED_S]:
            self._kept.pop(unused, None)
        known = self._kept.pop(piece, None)
        if known is None or not (is_open or now_s - known.at_s < _FRESH_S):
            found = self._wait(_Asking(self._queries, piece.from_ms, piece.to_ms).all())
            if found.trouble or not piece.is_settled:
                return found
            known = _Read(found, now_s, now_s)
        self._kept[piece] = known._replace(used_s=now_s)
        for oldest in list(self._kept)[:-_KEPT]:
            self._kept.pop(oldest, None)
        return known.signals

    def _wait(self, asked: Coroutine[Any, Any, _T]) -> _T:
        """Raises only while the server stops: an hour would be booked as one that nobody told of."""
        return _alone(asked) if self._loop is None else self._loop.answer(asked, _HOUR_S)


def _alone(asked: Coroutine[Any, Any, _T]) -> _T:
    """Without a server. asyncio.run would write out all figures as text, for a signal's handler."""
    loop = asyncio.new_event_loop()
    try:
        found = loop.run_until_complete(asked)
        loop.run_until_complete(loop.shutdown_default_executor())
        return found
    finally:
        loop.close()


class _Asking:
    """One hour, or a part of one."""

    def __init__(self, queries: OwnQueries, from_ms: int, to_ms: int) -> None:
        self._queries = queries
        self._from_ms = from_ms
        self._minutes = -(-(to_ms - from_ms) // MINUTE_MS)
        self.trouble: list[str] = []

    async def all(self) -> Signals:
        gpus, serving = await asyncio.gather(self._gpus(), self.serving())
        return Signals(gpus, serving, tuple(self.trouble))

    async def _gpus(self) -> GpuMinutes:
        figures = (_UTILIZATION, _SM, _POWER, _REASONS)
        active, busy, watts, reasons = await asyncio.gather(*map(self._figure, figures))
        # With MIG there is no utilisation, and without SM_ACTIVE, which is off by default, there may be this.
        if not {*watts.keys, *reasons.keys} <= {*active.keys}:
            active = await _filled(active, await self._figure(_ENGINE))
        if not {*active.keys} <= {*busy.keys}:
            busy = await _filled(busy, await self._figure(_TENSOR))
        rows = {key: row for row, key in enumerate(_all_keys([active, busy, watts, reasons]))}
        ran = self._spread(active, rows)
        return GpuMinutes(
            self._from_ms,
            {(uuid, instance): row for (uuid, instance), row in rows.items()},
            ran,
            await self._believed(ran, self._spread(busy, rows), rows),
            _of_device(self._spread(watts, rows), rows),
            _slowed(_of_device(self._spread(reasons, rows), rows)),
        )

    async def _believed(
        self, active: NDArray[np.float64], busy: NDArray[np.float64], rows: dict[tuple[str, ...], int]
    ) -> NDArray[np.float64]:
        """Profiling that sticks at 0 under load tells nothing: that is not idleness."""
        if not np.any((active >= 0.5) & (busy == 0)):
            return busy
        stuck = self._spread(await self._matrix(_STUCK.name, _STUCK.recorded, _GPU), rows)
        return np.where(stuck > 0, np.nan, busy)

    async def serving(self) -> ServingMinutes:
        running, requests, tokens = await asyncio.gather(
            self._matrix("requests in work", _RUNNING, _POD, twice=True),
            self._matrix("requests", _REQUESTS, _POD),
            self._matrix("tokens", _TOKENS, _POD),
        )
        rows = {key: row for row, key in enumerate(_all_keys([running, requests, tokens]))}
        names = {(cluster, namespace, pod): row for (cluster, namespace, pod), row in rows.items()}
        a_minute = MINUTE_MS // 1000
        return ServingMinutes(
            self._from_ms,
            names,
            self._spread(running, rows),
            self._spread(requests, rows) * a_minute,
            self._spread(tokens, rows) * a_minute,
        )

    async def _figure(self, figure: _Figure) -> Matrix:
        recorded = await self._matrix(figure.name, figure.recorded, _GPU)
        silent = np.flatnonzero(np.isnan(recorded.values).all(axis=0))
        if not len(silent):
            return recorded
        raw = await self._matrix(figure.name, figure.raw, _GPU, first=int(silent[0]), last=int(silent[-1]))
        return await _filled(recorded, raw)

    async def _matrix(
        self,
        what: str,
        query: str,
        labels: tuple[str, ...],
        *,
        first: int = 0,
        last: int | None = None,
        twice: bool = False,
    ) -> Matrix:
        """All minutes, of which only those from `first` to `last` are asked; `twice` a minute where what is
        between two looks would be missed."""
        last = self._minutes - 1 if last is None else last
        looks = 2 if twice else 1
        step_ms = MINUTE_MS // looks
        # A minute is told at its end: windows reach back from there.
        begin_ms = self._from_ms + first * MINUTE_MS + step_ms
        times = Times(begin_ms, step_ms, (last - first + 1) * looks)
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await self._queries.matrix(query, times, labels)
        except (TrilensError, TimeoutError) as e:
            reason = str(e) or f"no answer within {_ANSWER_S:g} s"
            self.trouble.append(f"{what} could not be asked: {reason}")
            return Matrix([], np.zeros((0, self._minutes)))
        values = np.full((len(found.keys), self._minutes), np.nan)
        values[:, first : last + 1] = _by_minute(found.values, looks)
        return Matrix(found.keys, values)

    def _spread(self, found: Matrix, rows: dict[tuple[str, ...], int]) -> NDArray[np.float64]:
        if found.keys == list(rows):
            return found.values
        values = np.full((len(rows), self._minutes), np.nan)
        kept = [(row, rows[key]) for row, key in enumerate(found.keys) if key in rows]
        if kept:
            from_rows, to_rows = zip(*kept, strict=True)
            values[list(to_rows)] = found.values[list(from_rows)]
        return values


def _by_minute(values: NDArray[np.float64], looks: int) -> NDArray[np.float64]:
    if looks == 1:
        return values
    each = values.reshape(len(values), values.shape[1] // looks, looks)
    said = ~np.isnan(each)
    total = np.where(said, each, 0.0).sum(axis=2)
    count = said.sum(axis=2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _of_device(values: NDArray[np.float64], rows: dict[tuple[str, ...], int]) -> NDArray[np.float64]:
    """Power and clocks are the whole GPU's, and recorded of that alone: its instances share them."""
    shared = [(row, rows[uuid, ""]) for (uuid, part), row in rows.items() if part and (uuid, "") in rows]
    if shared:
        instances, devices = (list(each) for each in zip(*shared, strict=True))
        values = values.copy()
        values[instances] = np.where(np.isnan(values[instances]), values[devices], values[instances])
    return values


def _slowed(reasons: NDArray[np.float64]) -> NDArray[np.float64]:
    said = ~np.isnan(reasons)
    bits = np.where(said, reasons, 0.0).astype(np.int64)
    return np.where(said, ((bits & _SLOWED) != 0).astype(np.float64), np.nan)


def _all_keys(found: Sequence[Matrix]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(key for one in found for key in one.keys))


async def _filled(first: Matrix, second: Matrix) -> Matrix:
    """What the first does not say, as the second says it. Of a fleet: in a thread, no loop waits."""
    return await asyncio.to_thread(_fill, first, second) if second.keys else first


def _fill(first: Matrix, second: Matrix) -> Matrix:
    rows = {key: row for row, key in enumerate(_all_keys([first, second]))}
    values = np.full((len(rows), second.values.shape[1]), np.nan)
    values[: len(first.keys)] = first.values
    at = [rows[key] for key in second.keys]
    values[at] = np.where(np.isnan(values[at]), second.values, values[at])
    return Matrix(list(rows), values)


def _pieces(from_ms: int, to_ms: int, settled_ms: int) -> list[_Piece]:
    """Whole blocks, also where only an hour of one is wanted: what is old is booked many hours at once. Of
    the last few hours, which are booked as they pass, hours."""
    pieces: list[_Piece] = []
    at_ms = from_ms
    while at_ms < to_ms:
        block_ms = at_ms - at_ms % _BLOCK_MS
        if block_ms + 2 * _BLOCK_MS <= settled_ms:
            pieces.append(_Piece(block_ms, block_ms + _BLOCK_MS, is_settled=True))
            at_ms = block_ms + _BLOCK_MS
        else:
            end_ms = min(at_ms - at_ms % _HOUR_MS + _HOUR_MS, to_ms)
            pieces.append(_Piece(at_ms, end_ms, is_settled=end_ms < settled_ms))
            at_ms = end_ms
    return pieces


def _cut(signals: Signals, from_ms: int, to_ms: int) -> Signals:
    gpus, serving = signals.gpus, signals.serving
    first = max(0, (from_ms - gpus.from_ms) // MINUTE_MS)
    there = slice(first, max(first, -(-(to_ms - gpus.from_ms) // MINUTE_MS)))
    begin_ms = gpus.from_ms + first * MINUTE_MS
    told = (gpus.active, gpus.busy, gpus.watts, gpus.throttled)
    served = (serving.running, serving.requests, serving.tokens)
    return Signals(
        GpuMinutes(begin_ms, gpus.gpus, *(one[:, there] for one in told)),
        ServingMinutes(begin_ms, serving.pods, *(one[:, there] for one in served)),
        signals.trouble,
    )


def _hours(from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """Cut at whole hours."""
    cuts = range(from_ms // _HOUR_MS * _HOUR_MS, max(to_ms, from_ms), _HOUR_MS)
    return [(max(cut, from_ms), min(cut + _HOUR_MS, to_ms)) for cut in cuts]


def _joined(from_ms: int, hours: Sequence[Signals]) -> Signals:
    found = [one.gpus for one in hours]
    rows = {key: row for row, key in enumerate(dict.fromkeys(key for one in found for key in one.gpus))}
    joined = (
        _side_by_side([(one.gpus, getattr(one, name)) for one in found], rows)
        for name in ("active", "busy", "watts", "throttled")
    )
    trouble = tuple(dict.fromkeys(line for one in hours for line in one.trouble))
    return Signals(
        GpuMinutes(from_ms, rows, *joined), _joined_serving(from_ms, [one.serving for one in hours]), trouble
    )


def _joined_serving(from_ms: int, hours: Sequence[ServingMinutes]) -> ServingMinutes:
    rows = {key: row for row, key in enumerate(dict.fromkeys(key for one in hours for key in one.pods))}
    joined = (
        _side_by_side([(one.pods, getattr(one, name)) for one in hours], rows)
        for name in ("running", "requests", "tokens")
    )
    return ServingMinutes(from_ms, rows, *joined)


def _side_by_side(
    parts: Sequence[tuple[Any, NDArray[np.float64]]], rows: dict[Any, int]
) -> NDArray[np.float64]:
    whole = np.full((len(rows), sum(values.shape[1] for _, values in parts)), np.nan)
    at = 0
    for keys, values in parts:
        whole[[rows[key] for key in keys], at : at + values.shape[1]] = values
        at += values.shape[1]
    return whole
