"""The columns of workloads, and of the ranks of one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trilens.cli.order import natural
from trilens.cli.top.cells import (
    UNKNOWN,
    brief_cell,
    length_cell,
    money_cell,
    number_cell,
    plain,
    share_cell,
)
from trilens.cli.top.columns import Column
from trilens.cli.top.marks import STYLES
from trilens.cli.top.picture import GRAVITY, RankGpu, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.cli.top.marks import Marks

_HOT_CELSIUS = 85  # where NVIDIA's data centre GPUs begin to slow down


def workload_columns(marks: Marks) -> Sequence[Column[Workload]]:
    def curve(one: Workload) -> str:
        return marks.sparkline(one.use)

    return (
        Column("", 1, lambda one: marks.health[one.health], _worst_first, _health_style),
        Column("workload", 15, _name, lambda one: natural(one.name), grows=True, most=24),
        Column("namespace", 9, _namespace, lambda one: natural(one.namespace), missed=3),
        Column("team", 8, _team, lambda one: one.team or "~", grows=True, most=10, missed=6),
        Column("phase", 8, _phase, lambda one: one.phase or "~", _phase_style, grows=True, most=10),
        Column("gpus", 4, lambda one: number_cell(one.gpus), lambda one: one.gpus, right=True, descends=True),
        Column("use", 5, curve, _last_use, grows=True, most=8, missed=4, keeps_end=True, descends=True),
        Column("good", 4, lambda one: share_cell(one.goodput), lambda one: one.goodput, _goodput, right=True),
        Column("an hour", 7, _per_hour, lambda one: one.per_hour, right=True, descends=True),
        Column("so far", 7, _spent, lambda one: one.spent, right=True, missed=8, descends=True),
        Column("step", 13, _step, lambda one: one.step, right=True, missed=1, descends=True),
        Column("done", 4, _done, lambda one: one.progress, right=True, missed=7, descends=True),
        Column("left", 6, lambda one: length_cell(one.left_s), lambda one: one.left_s, right=True, missed=5),
        Column("what is wrong", 20, _wrong, _worst_first, _health_style, grows=True, most=400, missed=2),
    )


def rank_columns(marks: Marks) -> Sequence[Column[RankGpu]]:
    def curve(one: RankGpu) -> str:
        return marks.sparkline(one.use)

    return (
        Column("rank", 5, lambda one: number_cell(one.rank), lambda one: one.rank, right=True),
        Column("pod", 10, _pod, lambda one: natural(one.pod), grows=True, most=40, missed=2),
        Column("node", 9, _node, lambda one: natural(one.node or "~"), grows=True, most=24),
        Column("gpu", 3, lambda one: one.gpu or UNKNOWN, lambda one: natural(one.gpu or "~"), right=True),
        Column("use", 5, curve, _busy, grows=True, most=16, missed=1, keeps_end=True),
        Column("busy", 4, lambda one: share_cell(one.utilization), _busy, right=True),
        Column("power", 6, _power, lambda one: one.power_watts, right=True, descends=True),
        Column("temp", 5, _celsius, lambda one: one.celsius, _temperature, right=True, descends=True),
        Column("step", 6, lambda one: number_cell(one.step), lambda one: one.step, right=True),
        Column(
            "took", 6, lambda one: brief_cell(one.step_s), lambda one: one.step_s, right=True, descends=True
        ),
        Column("own", 6, lambda one: brief_cell(one.own_s), lambda one: one.own_s, right=True, descends=True),
    )


def _worst_first(one: Workload) -> Any:
    return GRAVITY[one.health]


def _health_style(one: Workload) -> str:
    return STYLES[one.health]


def _name(one: Workload) -> str:
    return plain(one.name)


def _namespace(one: Workload) -> str:
    return plain(one.namespace)


def _team(one: Workload) -> str:
    return plain(one.team or UNKNOWN)


def _phase(one: Workload) -> str:
    return plain(one.phase or UNKNOWN)


def _phase_style(one: Workload) -> str:
    return "dim" if one.is_over else ""


def _goodput(one: Workload) -> str:
    return "yellow" if one.goodput is not None and one.goodput < 0.5 else ""


def _per_hour(one: Workload) -> str:
    return money_cell(one.per_hour, one.currency)


def _spent(one: Workload) -> str:
    return money_cell(one.spent, one.currency)


def _step(one: Workload) -> str:
    if one.step is None:
        return UNKNOWN
    return f"{one.step}/{one.total_steps}" if one.total_steps is not None else str(one.step)


def _done(one: Workload) -> str:
    return share_cell(one.progress)


def _wrong(one: Workload) -> str:
    return plain(one.health_text)


def _last_use(one: Workload) -> float | None:
    """NaN is unknown, too, and no number to sort by."""
    return one.use[-1] if one.use and math.isfinite(one.use[-1]) else None


def _pod(one: RankGpu) -> str:
    return plain(one.pod)


def _node(one: RankGpu) -> str:
    return plain(one.node or UNKNOWN)


def _busy(one: RankGpu) -> float | None:
    return one.utilization


def _power(one: RankGpu) -> str:
    return number_cell(one.power_watts, " W")


def _celsius(one: RankGpu) -> str:
    return number_cell(one.celsius, " C")


def _temperature(one: RankGpu) -> str:
    return "bold red" if one.celsius is not None and one.celsius >= _HOT_CELSIUS else ""
