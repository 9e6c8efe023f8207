"""GPUs as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.folding import WHOLE, fold, one_or_count, ranges, say_left_out
from trilens.cli.order import natural
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment

if TYPE_CHECKING:
    from collections.abc import Callable

_UNKNOWN = "-"
_GIB = 1 << 30
_MAY_GO = ("uuid", "model", "pod", "share", "memory", "cluster")  # on a narrow terminal
_READINGS: Final[dict[str, Callable[[float], str]]] = {
    "utilization": lambda ratio: f"{ratio:.0%}",
    "memory_used_bytes": lambda count: f"{count / _GIB:.1f} GiB",
    "power_watts": lambda watts: f"{watts:.0f} W",
}
_DOUBTS = 20  # shown; a cluster that is not watched makes one of every GPU
_TITLES = (
    "node",
    "gpu",
    "model",
    "uuid",
    "state",
    "workload",
    "pod",
    "rank",
    "share",
    "used",
    "memory",
    "power",
    "doubts",
)


def gpus_table(found: list[dict[str, Any]]) -> None:
    """A line for each holder: a shared GPU has several."""
    several = len({one["cluster"] for one in found}) > 1
    rows = [
        [*([gpu["cluster"] or _UNKNOWN] if several else []), *_row(gpu, holder)]
        for gpu in found
        for holder in gpu["holders"] or [None]
    ]
    rows.sort(key=lambda row: [natural(cell) for cell in row])
    print_table(["cluster", *_TITLES] if several else _TITLES, rows, may_go=_MAY_GO, folds=("state",))
    _show_faults(found)
    doubts = {
        f"{gpu['node']} {_number(gpu)}: {doubt_text(doubt)}"
        for gpu in found
        for doubt in (*gpu["doubts"], *(doubt for holder in gpu["holders"] for doubt in holder["doubts"]))
    }
    if doubts:
        typer.echo("\ndoubts")
        for line in sorted(doubts, key=natural)[:_DOUBTS]:
            typer.echo(f"  {line}")
        if len(doubts) > _DOUBTS:
            typer.echo(f"  and {len(doubts) - _DOUBTS} more; --json has them all")


def _show_faults(found: list[dict[str, Any]]) -> None:
    """Once for each device, whatever parts of it there are."""
    faults = {gpu["uuid"]: gpu["fault"] for gpu in found if gpu["fault"] is not None}
    if not faults:
        return
    typer.echo("\nfaults")
    for fault in sorted(faults.values(), key=lambda one: natural(one["text"])):
        typer.echo(f"  {fault['text']}, since {show_moment(fault['since_ms'] / 1000)}. {fault['action']}")


def show_gpus(found: list[dict[str, Any]], *, every: bool) -> None:
    """The GPUs of one workload; unless `every`, those of the last attempt, and alike ones in one row."""
    if not found:
        return
    typer.echo("\ngpus")
    groups, earlier = fold(found, _gpu_alike, every=every)
    print_table(
        [
            "attempt",
            "rank",
            "pod",
            "node",
            "gpu",
            "model",
            "share",
            "used",
            "memory",
            "power",
            "by",
            "since",
            "until",
        ],
        [_gpus_row(group) for group in groups],
        may_go=("by", "model", "since", "share", "memory", "attempt", "node"),
    )
    say_left_out(earlier, "of earlier attempts")
    doubts = list(
        dict.fromkeys(
            f"  {one['pod']} {_number(one)}: {doubt_text(doubt)}"
            for group in groups
            for one in group
            for doubt in one["doubts"]
        )
    )
    shown = doubts if every else doubts[:WHOLE]
    for line in shown:
        typer.echo(line)
    say_left_out(len(doubts) - len(shown), "doubts more")


def _gpu_alike(one: dict[str, Any]) -> object:
    return one["model"], one["share"], tuple(one["sources"]), one["to_ms"] is None


def _gpus_row(alike: list[dict[str, Any]]) -> list[str]:
    one = alike[0]
    ends = [gpu["to_ms"] for gpu in alike if gpu["to_ms"] is not None]
    return [
        str(one["attempt"]),
        ranges(gpu["rank"] for gpu in alike),
        one_or_count((gpu["pod"] for gpu in alike), "pods"),
        one_or_count((gpu["node"] for gpu in alike), "nodes"),
        _number(one) if len(alike) == 1 else one_or_count((_device(gpu) for gpu in alike), "gpus"),
        _known(one["model"]),
        _known(one["share"]),
        *_readings(alike),
        ", ".join(one["sources"]),
        show_moment(min(gpu["from_ms"] for gpu in alike) / 1000),
        show_moment(max(ends) / 1000) if ends else "",
    ]


def _device(gpu: dict[str, Any]) -> str:
    return gpu["uuid"] if gpu["instance"] is None else f"{gpu['uuid']}/{gpu['instance']}"


def _row(gpu: dict[str, Any], holder: dict[str, Any] | None) -> list[str]:
    doubts = len(gpu["doubts"]) + (len(holder["doubts"]) if holder else 0)
    return [
        gpu["node"] or _UNKNOWN,
        _number(gpu),
        _known(gpu["model"]),
        _known(gpu["uuid"]),
        _state(gpu),
        _known(holder and holder["workload"]),
        f"{holder['namespace']}/{holder['pod']}" if holder else _UNKNOWN,
        _known(holder and holder["rank"]),
        _known(holder and holder["share"]),
        *_readings([gpu]),
        f"{doubts}?" if doubts else "",
    ]


def _readings(alike: list[dict[str, Any]]) -> list[str]:
    """Use, memory and power of GPUs in one row: from the least to the most."""
    cells = []
    for name, write in _READINGS.items():
        known = sorted(gpu[name] for gpu in alike if gpu[name] is not None)
        cells.append(" to ".join(dict.fromkeys(map(write, (known[0], known[-1])))) if known else _UNKNOWN)
    return cells


def _state(gpu: dict[str, Any]) -> str:
    count = f"{gpu['count']} " if gpu["count"] > 1 else ""
    since = "" if gpu["seen_ms"] is None else f", last seen {show_moment(gpu['seen_ms'] / 1000)}"
    fault = ", has a fault" if gpu["fault"] is not None else ""
    return f"{count}{gpu['state']}{since}{fault}"


def _number(gpu: dict[str, Any]) -> str:
    """The device's number, and the instance: 3, or 3/7 (1g.10gb)."""
    number = _known(gpu["index"])
    if gpu["instance"] is None:
        return number
    profile = f" ({gpu['profile']})" if gpu.get("profile") else ""
    return f"{number}/{gpu['instance']}{profile}"


def _known(value: object) -> str:
    return _UNKNOWN if value is None else str(value)
