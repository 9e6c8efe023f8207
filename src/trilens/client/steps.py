"""Steps and curves of runs, which the server sends in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.client.table import Kind, Table, as_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Page = Mapping[str, Any]

_SECOND_US: Final = 1_000_000
_PLAIN: Final = ("step", "rank", "attempt", "n", "samples", "tokens", "epoch")


def steps_table(pages: Sequence[Page], warnings: Sequence[str]) -> Table:
    """Phases as `phase.NAME_s` and `gpu.NAME_s`, values by their own names; rates are of the one rank."""
    columns: dict[str, tuple[Kind, Sequence[Any]]] = {
        name: (Kind.WHOLE, _joined(pages, name)) for name in _PLAIN
    }
    columns["time"] = (Kind.TIME_US, _joined(pages, "start_us"))
    lengths = _seconds(_joined(pages, "duration_us"))
    columns["step_s"] = (Kind.NUMBER, lengths)
    for rate, counted in (("samples_per_second", "samples"), ("tokens_per_second", "tokens")):
        columns[rate] = (Kind.NUMBER, _rates(columns[counted][1], lengths))
    for group, form in (("phases_us", "phase.{}_s"), ("device_phases_us", "gpu.{}_s")):
        for name in _names(pages, group):
            columns[form.format(name)] = (Kind.NUMBER, _seconds(_of_group(pages, group, name)))
    for name in _names(pages, "values"):
        values = [as_value(Kind.NUMBER, one) for one in _of_group(pages, "values", name)]
        columns[name if name not in columns else f"value.{name}"] = (Kind.NUMBER, values)
    return Table(columns, warnings)


def curve_table(data: Page, warnings: Sequence[str]) -> Table:
    def numbers(name: str) -> tuple[Kind, Sequence[Any]]:
        return Kind.NUMBER, [as_value(Kind.NUMBER, one) for one in data[name]]

    return Table(
        {
            "step": (Kind.WHOLE, data["step"]),
            "attempt": (Kind.WHOLE, data["attempt"]),
            "time": (Kind.TIME_MS, data["t_ms"]),
            "mean": numbers("mean"),
            "worst": numbers("worst"),
            "worst_rank": (Kind.WHOLE, data["worst_rank"]),
        },
        warnings,
        about={"run": data["run"], "value": data["value"]},
    )


def _joined(pages: Sequence[Page], name: str) -> list[Any]:
    return [one for page in pages for one in page[name]]


def _names(pages: Sequence[Page], group: str) -> list[str]:
    return sorted({name for page in pages for name in page[group]})


def _of_group(pages: Sequence[Page], group: str, name: str) -> list[Any]:
    """A page in which nobody told of it has no such column."""
    return [one for page in pages for one in page[group].get(name, [None] * len(page["step"]))]


def _seconds(lengths_us: Sequence[int | None]) -> list[float | None]:
    return [one / _SECOND_US if one is not None else None for one in lengths_us]


def _rates(counts: Sequence[int | None], lengths: Sequence[float | None]) -> list[float | None]:
    return [
        count / seconds if count is not None and seconds else None
        for count, seconds in zip(counts, lengths, strict=True)
    ]
