"""Answers to PromQL as tables: one row a sample, or one column a series over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.client.connection import warnings_of
from trilens.client.table import Kind, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.client.connection import Connection

    Series = Mapping[str, Any]

_POINTS: Final = 250  # of a range, where no step is given
_MOST_POINTS: Final = 11_000  # that the server gives of a series at once
_HISTOGRAMS: Final = "native histograms are left out; histogram_quantile() and the like make numbers of them"


def long_table(data: Mapping[str, Any], warnings: Sequence[str]) -> Table:
    """Labels, time and value of every sample of an instant query."""
    is_single = data["resultType"] in ("scalar", "string")
    result = [{"metric": {}, "value": data["result"]}] if is_single else data["result"]
    samples = [(one["metric"], sample) for one in result for sample in _samples(one)]
    is_text = data["resultType"] == "string"
    values = [sample[1] if is_text else float(sample[1]) for _, sample in samples]
    told: dict[str, tuple[Kind, Sequence[Any]]] = {
        "time": (Kind.TIME_MS, [_ms(sample[0]) for _, sample in samples]),
        "value": (Kind.TEXT if is_text else Kind.NUMBER, values),
    }
    columns: dict[str, tuple[Kind, Sequence[Any]]] = {}
    for name in sorted({name for labels, _ in samples for name in labels}):
        column = name
        while column in told or column in columns:
            column = f"label.{column}"
        columns[column] = (Kind.TEXT, [labels.get(name) for labels, _ in samples])
    return Table({**columns, **told}, [*warnings, *_unshown(result)])


def range_table(
    connection: Connection, promql: str, start_s: float, end_s: float, step_s: float | None
) -> Table:
    """Of a long range, asked piece by piece."""
    apart_s = step_s if step_s is not None else max(1.0, (end_s - start_s) // _POINTS)
    answers = [
        connection.post(
            "/api/v1/query_range",
            {"query": promql, "start": f"{a:.3f}", "end": f"{b:.3f}", "step": f"{apart_s:.3f}"},
        )
        for a, b in pieces(start_s, end_s, apart_s)
    ]
    return wide_table([one.data["result"] for one in answers], warnings_of(answers))


def wide_table(pieces: Iterable[Sequence[Series]], warnings: Sequence[str]) -> Table:
    """A column for each series, named by the labels in which they differ; `pieces` follow each other in time.

    Where a series has no sample, nothing is known.
    """
    points: dict[frozenset[tuple[str, str]], dict[int, float]] = {}
    said: list[str] = []
    for piece in pieces:
        said += _unshown(piece)
        for one in piece:
            known = points.setdefault(frozenset(one["metric"].items()), {})
            known.update((_ms(t), float(value)) for t, value in one.get("values", ()))
    every = [dict(labels) for labels in points]
    times = sorted({t for known in points.values() for t in known})
    columns: dict[str, tuple[Kind, Sequence[Any]]] = {"time": (Kind.TIME_MS, times)}
    labels_of = {}
    for labels, name, known in zip(every, series_names(every), points.values(), strict=True):
        columns[name] = (Kind.NUMBER, [known.get(t) for t in times])
        labels_of[name] = labels
    return Table(columns, [*dict.fromkeys([*warnings, *said])], {"series": labels_of})


def pieces(start_s: float, end_s: float, step_s: float) -> Iterator[tuple[float, float]]:
    """Of a range, each with as many points as the server gives at once, all on one grid."""
    reach_s = (_MOST_POINTS - 1) * step_s
    while True:
        yield start_s, min(end_s, start_s + reach_s)
        start_s += reach_s + step_s
        if start_s > end_s:
            return


def series_names(every: Sequence[Mapping[str, str]]) -> list[str]:
    """The value of the one label that differs, else all of those that do: gpu=0, node=a."""
    names = sorted({name for labels in every for name in labels})
    differing = [name for name in names if len({labels.get(name) for labels in every}) > 1]
    if not differing:
        found = [labels.get("__name__", "value") for labels in every]
        return ["value" if name == "time" else name for name in found]
    if len(differing) == 1:
        found = [labels.get(differing[0]) or "(none)" for labels in every]
        if "time" not in found and len({*found}) == len(found):
            return found
    return [
        ", ".join(f"{name}={labels[name]}" for name in differing if name in labels) or "(none)"
        for labels in every
    ]


def _samples(series: Series) -> list[Sequence[Any]]:
    return [series["value"]] if "value" in series else [*series.get("values", ())]


def _unshown(result: Sequence[Any]) -> list[str]:
    has_any = any(isinstance(one, dict) and ("histogram" in one or "histograms" in one) for one in result)
    return [_HISTOGRAMS] if has_any else []


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
