"""GPUs as people read them."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.order import natural
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment

_UNKNOWN = "-"
_GIB = 1 << 30
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
    print_table(["cluster", *_TITLES] if several else list(_TITLES), rows)
    doubts = dict.fromkeys(
        f"{gpu['node']} {_number(gpu)}: {doubt_text(doubt)}"
        for gpu in found
        for doubt in (*gpu["doubts"], *(doubt for holder in gpu["holders"] for doubt in holder["doubts"]))
    )
    if doubts:
        typer.echo("\ndoubts")
        for line in list(doubts)[:_DOUBTS]:
            typer.echo(f"  {line}")
        if len(doubts) > _DOUBTS:
            typer.echo(f"  and {len(doubts) - _DOUBTS} more; --json has them all")


def show_gpus(found: list[dict[str, Any]]) -> None:
    """The GPUs of one workload."""
    if not found:
        return
    typer.echo("\ngpus")
    print_table(
        ["attempt", "rank", "pod", "node", "gpu", "model", "share", "by", "since", "until"],
        [
            [
                str(one["attempt"]),
                _known(one["rank"]),
                one["pod"],
                _known(one["node"]),
                _number(one),
                _known(one["model"]),
                _known(one["share"]),
                ", ".join(one["sources"]),
                show_moment(one["from_ms"] / 1000),
                "" if one["to_ms"] is None else show_moment(one["to_ms"] / 1000),
            ]
            for one in found
        ],
    )
    for line in dict.fromkeys(
        f"  {one['pod']} {_number(one)}: {doubt_text(doubt)}" for one in found for doubt in one["doubts"]
    ):
        typer.echo(line)


def _row(gpu: dict[str, Any], holder: dict[str, Any] | None) -> list[str]:
    doubts = len(gpu["doubts"]) + (len(holder["doubts"]) if holder else 0)
    memory, power = gpu["memory_used_bytes"], gpu["power_watts"]
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
        _UNKNOWN if gpu["utilization"] is None else f"{gpu['utilization']:.0%}",
        _UNKNOWN if memory is None else f"{memory / _GIB:.1f} GiB",
        _UNKNOWN if power is None else f"{power:.0f} W",
        f"{doubts}?" if doubts else "",
    ]


def _state(gpu: dict[str, Any]) -> str:
    count = f"{gpu['count']} " if gpu["count"] > 1 else ""
    since = "" if gpu["seen_ms"] is None else f", last seen {show_moment(gpu['seen_ms'] / 1000)}"
    return f"{count}{gpu['state']}{since}"


def _number(gpu: dict[str, Any]) -> str:
    """The device's number, and the instance: 3, or 3/7 (1g.10gb)."""
    number = _known(gpu["index"])
    if gpu["instance"] is None:
        return number
    profile = f" ({gpu['profile']})" if gpu.get("profile") else ""
    return f"{number}/{gpu['instance']}{profile}"


def _known(value: object) -> str:
    return _UNKNOWN if value is None else str(value)
