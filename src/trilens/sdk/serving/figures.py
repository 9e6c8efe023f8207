"""What is counted of the requests to one model, and to all."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.sdk.metrics import write_labels, write_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.sdk.metrics import LabelPairs

# fmt: off
# From a classifier's milliseconds to a long completion's minutes: Prometheus's defaults, then vLLM's.
DURATION_S: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0,
)
# As vLLM and OpenTelemetry's gen_ai.server metrics have them, so that the quantiles can be compared.
FIRST_TOKEN_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0,
)
TOKEN_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
# fmt: on

MOST_MODELS: Final = 100  # (model, version) pairs; a name that a client chooses must not fill the memory
MOST_KINDS: Final = 50  # of codes and errors of one model
OTHER: Final = "other"


class Histogram:
    """Not locked: its owner is."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: LabelPairs) -> Iterator[str]:
        upto = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            upto += count
            yield f"{name}_bucket{write_labels((*labels, ('le', write_value(bound))))} {upto}"
        yield f"{name}_sum{write_labels(labels)} {write_value(self.total)}"
        yield f"{name}_count{write_labels(labels)} {upto}"


class Outcome(NamedTuple):
    """How a request ended. None is "nobody said so"."""

    code: str
    error: str | None
    duration_s: float
    first_token_s: float | None
    prompt_tokens: int | None
    completion_tokens: int | None


class ModelFigures:
    """One model and version. Any thread."""

    def __init__(self, model: str, version: str) -> None:
        self.labels: LabelPairs = tuple(
            (name, value) for name, value in (("model", model), ("version", version)) if value
        )
        self._lock = threading.Lock()
        self.running = 0
        self.codes: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.tokens: dict[str, int] = {}
        self.duration = Histogram(DURATION_S)
        self.first_token = Histogram(FIRST_TOKEN_S)
        self.token = Histogram(TOKEN_S)

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def leave(self) -> None:
        """It turned out to be a request to another model."""
        with self._lock:
            self.running -= 1

    def end(self, outcome: Outcome) -> None:
        code, error, duration_s, first_token_s, prompt, completion = outcome
        with self._lock:
            self.running -= 1
            _count(self.codes, code, 1)
            self.duration.observe(duration_s)
            if error is not None:
                _count(self.errors, error, 1)
            if first_token_s is not None:
                self.first_token.observe(first_token_s)
                if completion is not None and completion > 1:
                    self.token.observe((duration_s - first_token_s) / (completion - 1))
            if prompt is not None:
                _count(self.tokens, "prompt", prompt)
            if completion is not None:
                _count(self.tokens, "completion", completion)

    def lines(self, family: str) -> list[str]:
        with self._lock:
            return list(_FAMILIES[family].lines(self, family))


class _Family(NamedTuple):
    kind: str
    help: str
    lines: Callable[[ModelFigures, str], Iterator[str]]


def _by(
    label: str, counts: Callable[[ModelFigures], dict[str, int]]
) -> Callable[[ModelFigures, str], Iterator[str]]:
    def lines(of: ModelFigures, name: str) -> Iterator[str]:
        for kind, count in counts(of).items():
            yield f"{name}{write_labels((*of.labels, (label, kind)))} {count}"

    return lines


def _told(histogram: Callable[[ModelFigures], Histogram]) -> Callable[[ModelFigures, str], Iterator[str]]:
    """Nothing where nothing was ever observed: a server that does not stream has no such time."""

    def lines(of: ModelFigures, name: str) -> Iterator[str]:
        if any(histogram(of).counts):
            yield from histogram(of).lines(name, of.labels)

    return lines


_FAMILIES: Final = {
    "inference_requests_running": _Family(
        "gauge",
        "Requests that are being answered.",
        lambda of, name: iter([f"{name}{write_labels(of.labels)} {of.running}"]),
    ),
    "inference_requests_total": _Family(
        "counter", "Requests that have ended, by how.", _by("code", lambda of: of.codes)
    ),
    "inference_errors_total": _Family(
        "counter", "Requests that the server failed, by what went wrong.", _by("error", lambda of: of.errors)
    ),
    "inference_tokens_total": _Family(
        "counter", "Tokens read (prompt) and made (completion).", _by("kind", lambda of: of.tokens)
    ),
    "inference_request_duration_seconds": _Family(
        "histogram", "From a request's arrival to the end of its answer.", _told(lambda of: of.duration)
    ),
    "inference_time_to_first_token_seconds": _Family(
        "histogram",
        "From a request's arrival to the first part of a streamed answer.",
        _told(lambda of: of.first_token),
    ),
    "inference_time_per_output_token_seconds": _Family(
        "histogram", "Of a request, per token after the first.", _told(lambda of: of.token)
    ),
}


class Figures:
    """All models. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[tuple[str, str], ModelFigures] = {}
        self.models_put_together = 0  # requests to models beyond the bound

    def of(self, model: str, version: str) -> ModelFigures:
        found = self._models.get((model, version))
        return found if found is not None else self._make(model, version)

    def _make(self, model: str, version: str) -> ModelFigures:
        with self._lock:
            if len(self._models) >= MOST_MODELS and (model, version) not in self._models:
                self.models_put_together += 1
                model, version = OTHER, ""
            return self._models.setdefault((model, version), ModelFigures(model, version))

    def lines(self) -> Iterator[str]:
        models = tuple(self._models.values())
        for name, family in _FAMILIES.items():
            told = [line for model in models for line in model.lines(name)]
            if told:
                yield f"# HELP {name} {family.help}"
                yield f"# TYPE {name} {family.kind}"
                yield from told


def _count(counts: dict[str, int], kind: str, by: int) -> None:
    if kind not in counts and len(counts) >= MOST_KINDS:
        kind = OTHER
    counts[kind] = counts.get(kind, 0) + by
