"""Inference servers under load: requests in bins of ten seconds, told as vLLM tells them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.simulate.bank import Load
from trilens.simulate.inference_load import BIN_S, LOADS, draw_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.series import Floats
    from trilens.simulate.scenario import Serving

_DAY_S: Final = 86_400.0
_DAILY_SWING: Final = 0.55
_BUSIEST_S: Final = 15 * 3600.0  # of the day, UTC
_PREFILL_TOKENS_A_SECOND: Final = 18_000.0
_TOKEN_S: Final = 0.011  # between two tokens, of a server with little to do


class _Histogram(NamedTuple):
    name: str
    help: str
    bounds: tuple[float, ...]


_SECONDS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
HISTOGRAMS: Final = (
    _Histogram(
        "vllm:time_to_first_token_seconds",
        "Histogram of time to first token in seconds.",
        (
            0.001,
            0.005,
            0.01,
            0.02,
            0.04,
            0.06,
            0.08,
            0.1,
            0.25,
            0.5,
            0.75,
            1,
            2.5,
            5,
            7.5,
            10,
            20,
            40,
            80,
            160,
        ),
    ),
    _Histogram(
        "vllm:inter_token_latency_seconds",
        "Histogram of inter-token latency in seconds.",
        (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80),
    ),
    _Histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", _SECONDS),
    _Histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase.", _SECONDS),
    _Histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", _TOKENS),
    _Histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", _TOKENS),
)


_BINS_AT_ONCE: Final = 360  # an hour: a step of numpy takes as long for one
_GRAIN: Final = 2**20  # of what is a multiple of its part sums are exact: they do not depend on who asks when
_KINDS: Final = tuple(LOADS)
_SHAPES: Final = np.array([load.burst_shape for load in LOADS.values()])


class _Drawn(NamedTuple):
    """What comes in one bin: how many requests to each replica, and what their sizes are drawn with."""

    came: NDArray[np.int64]
    uniform: Floats


class _Columns:
    """What every replica has counted, a row for each."""

    def __init__(self, rows: int) -> None:
        self.rate = np.zeros(rows)
        self.capacity = np.ones(rows)
        self.kind = np.zeros(rows, dtype=np.intp)
        self.waiting = np.zeros(rows)
        self.running = np.zeros(rows)
        self.requests = np.zeros(rows)
        self.preemptions = np.zeros(rows)
        self.prompt_tokens = np.zeros(rows)
        self.output_tokens = np.zeros(rows)
        self.counts = [np.zeros((rows, len(one.bounds) + 1)) for one in HISTOGRAMS]
        self.sums = np.zeros((rows, len(HISTOGRAMS)))

    def copy_to(self, other: _Columns, rows: int) -> None:
        for name, column in vars(self).items():
            if name != "counts":
                getattr(other, name)[:rows] = column
        for mine, others in zip(self.counts, other.counts, strict=True):
            others[:rows] = mine

    def clear(self, row: int) -> None:
        for name, column in vars(self).items():
            if name != "counts":
                column[row] = 0
        for counts in self.counts:
            counts[row] = 0


class InferenceServers:
    """All replicas. Bins are counted from the beginning of the world, whoever asks when."""

    def __init__(self, start_ms: int, seed: int) -> None:
        self._start_s = start_ms / 1000
        self._seed = seed
        self._rows: dict[str, int] = {}
        self._specs: dict[str, Serving] = {}
        self._free = list(range(64))
        self._columns = _Columns(64)
        self._next_bin = 0

    def add(self, pod_uid: str, spec: Serving, at_s: float) -> None:
        self.advance(at_s)
        if not self._free:
            rows = len(self._columns.rate)
            larger = _Columns(2 * rows)
            self._columns.copy_to(larger, rows)
            self._columns = larger
            self._free = list(range(rows, 2 * rows))
        row = self._free.pop()
        columns = self._columns
        columns.clear(row)
        columns.rate[row], columns.capacity[row] = spec.requests_per_second, spec.capacity
        columns.kind[row] = _KINDS.index(spec.load)
        self._rows[pod_uid], self._specs[pod_uid] = row, spec

    def remove(self, pod_uid: str, at_s: float) -> None:
        if pod_uid in self._rows:
            self.advance(at_s)
            self._free.append(self._rows.pop(pod_uid))
            del self._specs[pod_uid]

    def advance(self, to_s: float) -> None:
        """Every bin that is over by then."""
        last = int(to_s // BIN_S)
        if self._next_bin < last and self._rows:
            rows = np.array([*self._rows.values()])
            for first in range(self._next_bin, last, _BINS_AT_ONCE):
                self._serve(range(first, min(last, first + _BINS_AT_ONCE)), rows)
        self._next_bin = max(self._next_bin, last)

    def load_of(self, spec: Serving, memory_mib: float) -> Load:
        """How a replica looks from its GPU."""
        busy = min(0.95, spec.requests_per_second / spec.capacity)
        return Load(
            util=min(1.0, 0.25 + 0.8 * busy),
            sm=0.55 * busy,
            tensor=0.28 * busy,
            dram=0.15 + 0.6 * busy,
            power=0.12 + 0.6 * busy,
            fb_mib=0.9 * memory_mib,
            link=0.01,
            pcie=6e7,
            swing=_DAILY_SWING * 0.8,
            wave_s=_DAY_S,
            wave_from_s=self._wave_from_s(),
        )

    def said(self, pod_uid: str) -> str | None:
        """The line that vLLM's log got last; None of a pod in which no server answers."""
        row = self._rows.get(pod_uid)
        if row is None:
            return None
        running, waiting = self._columns.running[row], self._columns.waiting[row]
        cache = 100 * self._cache_usage(row, self._specs[pod_uid])
        return (
            f"Engine 000: Running: {running:.0f} reqs, Waiting: {waiting:.0f} reqs, "
            f"GPU KV cache usage: {cache:.1f}%"
        )

    def _cache_usage(self, row: int, spec: Serving) -> float:
        return min(1.0, round(float(self._columns.running[row]) / (16 * spec.capacity), 4))

    def text(self, pod_uid: str) -> bytes:
        row, spec, columns = self._rows[pod_uid], self._specs[pod_uid], self._columns
        own = f'engine="0",model_name="{spec.model_name}"'
        full = self._cache_usage(row, spec)
        single = (
            ("num_requests_running", "gauge", "Requests in model execution batches.", columns.running[row]),
            ("num_requests_waiting", "gauge", "Requests waiting to be processed.", columns.waiting[row]),
            ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", full),
            ("num_preemptions_total", "counter", "Preemptions by the engine.", columns.preemptions[row]),
            ("prompt_tokens_total", "counter", "Prefill tokens processed.", columns.prompt_tokens[row]),
            ("generation_tokens_total", "counter", "Generated tokens.", columns.output_tokens[row]),
        )
        lines = []
        for name, kind, text, value in single:
            lines += [
                f"# HELP vllm:{name} {text}",
                f"# TYPE vllm:{name} {kind}",
                f"vllm:{name}{{{own}}} {value}",
            ]
        lines += [
            "# HELP vllm:request_success_total Requests that were processed.",
            "# TYPE vllm:request_success_total counter",
            f'vllm:request_success_total{{{own},finished_reason="stop"}} {columns.requests[row]}',
        ]
        for at, histogram in enumerate(HISTOGRAMS):
            lines += [f"# HELP {histogram.name} {histogram.help}", f"# TYPE {histogram.name} histogram"]
            upto = np.cumsum(columns.counts[at][row]).astype(int).tolist()
            bounds = (*(str(float(bound)) for bound in histogram.bounds), "+Inf")
            lines += [
                f'{histogram.name}_bucket{{{own},le="{bound}"}} {count}'
                for bound, count in zip(bounds, upto, strict=True)
            ]
            total = columns.sums[row, at]
            lines += [f"{histogram.name}_sum{{{own}}} {total}", f"{histogram.name}_count{{{own}}} {upto[-1]}"]
        return ("\n".join(lines) + "\n").encode()

    def _wave_from_s(self) -> float:
        """Where the wave of the day begins to rise, counted as the world counts."""
        return (_BUSIEST_S - _DAY_S / 4) - self._start_s % _DAY_S

    def _serve(self, bins: range, rows: NDArray[np.intp]) -> None:
        """What came in these bins, to all replicas at once."""
        columns, many = self._columns, len(rows)
        kind = np.tile(columns.kind[rows], len(bins))
        capacity = np.tile(columns.capacity[rows], len(bins))
        drawn = [self._draw(number, rows) for number in bins]
        came = np.concatenate([one.came for one in drawn])
        uniform = np.concatenate([one.uniform for one in drawn], axis=1)
        total = uniform.shape[1]
        whose = np.repeat(np.arange(len(came)), came)  # of each request, the bin and the replica
        prompt, output = np.empty(total), np.empty(total)
        for at, name in enumerate(_KINDS):
            own = kind[whose] == at
            prompt[own] = draw_tokens(LOADS[name].prompt_tokens, uniform[0, own])
            output[own] = draw_tokens(LOADS[name].output_tokens, uniform[1, own])
        before, after = _queues(columns.waiting[rows], came.reshape(-1, many), columns.capacity[rows])
        busy = np.minimum(1.0, (before + came) / (capacity * BIN_S))
        first_of = np.cumsum(came) - came
        passed = (np.arange(total) - first_of[whose]) / np.maximum(1, came - 1)[whose]
        queue_s = (before[whose] + (after - before)[whose] * passed) / capacity[whose] + 0.002
        token_s = _TOKEN_S * (1 + 1.6 * busy * busy)
        first_s = queue_s + prompt / _PREFILL_TOKENS_A_SECOND * (1 + busy[whose]) + token_s[whose]
        whole_s = first_s + output * token_s[whose]

        def sums(values: Floats) -> Floats:
            return np.bincount(whose, weights=values, minlength=len(came)).astype(np.float64, copy=False)

        def over_bins(values: Floats) -> Floats:
            summed: Floats = values.reshape(-1, many).sum(axis=0)
            return summed

        tokens = sums(output)
        columns.waiting[rows] = after[-many:]
        # Little's law: how many are in at once.
        running = np.minimum(capacity * BIN_S, sums(whole_s) / BIN_S)
        columns.running[rows] = np.round(running[-many:])
        columns.preemptions[rows] += over_bins(busy >= 1.0)
        columns.prompt_tokens[rows] += over_bins(sums(prompt))
        columns.output_tokens[rows] += over_bins(tokens)
        columns.requests[rows] += over_bins(came)
        of_replica, every = whose % many, np.arange(len(came)) % many
        for at, (values, owners, weights) in enumerate(
            (
                (first_s, of_replica, None),
                (token_s, every, tokens - came),  # one observation for each token after the first
                (whole_s, of_replica, None),
                (queue_s, of_replica, None),
                (prompt, of_replica, None),
                (output, of_replica, None),
            )
        ):
            width = len(HISTOGRAMS[at].bounds) + 1
            cells = owners * width + np.searchsorted(HISTOGRAMS[at].bounds, values)
            counts = np.bincount(cells, weights=weights, minlength=many * width)
            columns.counts[at][rows] += counts.reshape(many, width)
            seen = np.round((values if weights is None else values * weights) * _GRAIN) / _GRAIN
            columns.sums[rows, at] += np.bincount(owners, weights=seen, minlength=many)

    def _draw(self, number: int, rows: NDArray[np.intp]) -> _Drawn:
        """The same whoever asks when."""
        rng = np.random.default_rng([self._seed, 11, number])
        of_day = 1 + _DAILY_SWING * math.sin(2 * math.pi * (number * BIN_S - self._wave_from_s()) / _DAY_S)
        shape = _SHAPES[self._columns.kind[rows]]
        came = rng.poisson(self._columns.rate[rows] * of_day * BIN_S * rng.gamma(shape, 1 / shape))
        return _Drawn(came, rng.uniform(size=(2, int(came.sum()))))


def _queues(waiting: Floats, came: NDArray[np.int64], capacity: Floats) -> tuple[Floats, Floats]:
    """How many wait before and after each bin, bin after bin, with a value for each replica."""
    before, after = np.empty(came.shape), np.empty(came.shape)
    for number, requests in enumerate(came):
        before[number] = waiting
        waiting = after[number] = np.round(np.maximum(0.0, waiting + requests - capacity * BIN_S))
    return before.ravel(), after.ravel()
