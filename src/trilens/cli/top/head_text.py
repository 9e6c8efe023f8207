"""The lines above the table: money, GPUs, incidents, and whether all that is still true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from trilens.cli.cost_figures import counted
from trilens.cli.times import show_length
from trilens.cli.top.cells import UNKNOWN, money_cell, plain
from trilens.cli.top.marks import STYLES

if TYPE_CHECKING:
    from trilens.cli.top.marks import Marks
    from trilens.cli.top.picture import Head, Told

_OLD_S: Final = 10.0  # a few refreshes, so that one slow answer raises no alarm
_BAR: Final = 24


def money_line(head: Head, marks: Marks, width: int) -> Text:
    burn = money_cell(head.burn_per_hour, head.currency)
    line = Text.assemble(("burning ", "dim"), (f"{burn} an hour" if burn != UNKNOWN else "unknown", "bold"))
    total = sum(count for _, count in head.gpus)
    if not total:
        return line.append("   no GPU is known", "dim")
    line.append(f"   {counted(total, 'GPU')}: ")
    shown = [(state, count) for state, count in head.gpus if count or state != "unknown"]
    line.append_text(
        Text(", ").join(
            Text(f"{count:,} {state}", STYLES[state] if count else "dim") for state, count in shown
        )
    )
    room = width - line.cell_len - 3
    if room >= _BAR:
        line.append("   ").append_text(_bar(shown, total, marks, min(room, 2 * _BAR)))
    return line


def incidents_line(head: Head, width: int | None) -> Text:
    count = len(head.incidents) + head.more_incidents
    if not count:
        return Text("no incident is open", STYLES["ok"])
    lost = f", {money_cell(head.lost, head.currency)} lost" if head.lost is not None else ""
    line = Text(f"{counted(count, 'incident')} open{lost}", STYLES[head.incidents[0].severity])
    line.append(f"   {plain(head.incidents[0].text)}", "default")
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def told_line(one: Told, currency: str | None, now_s: float, marks: Marks, width: int) -> Text:
    """An incident or a finding in one line."""
    since = show_length(max(0.0, now_s - one.since_ms / 1000))
    lost = f", {money_cell(one.lost, currency)} lost" if one.lost is not None else ""
    line = Text(f"{marks.health[one.severity]} {one.code} ", STYLES[one.severity])
    line.append(f"{plain(one.text)} ({since}{lost})", "default")
    line.truncate(width, overflow="ellipsis")
    return line


def state_text(age_s: float | None, trouble: str | None, *, is_paused: bool) -> Text:
    """Beside the server's name: live, paused, or how old what is seen is, and why."""
    if trouble is not None:
        old = "" if age_s is None else f"OLD, {show_length(age_s)}: "
        return Text(f"{old}{plain(trouble)}", "bold red")
    if age_s is None:
        return Text("asking", "dim")
    if is_paused:
        return Text(f"PAUSED, {show_length(age_s)} old", "bold yellow")
    return Text(f"OLD, {show_length(age_s)}", "bold yellow") if age_s > _OLD_S else Text("live", "green")


def _bar(shown: list[tuple[str, int]], total: int, marks: Marks, width: int) -> Text:
    """Each state at least one sign wide: one broken GPU of thousands is seen."""
    widths = {state: max(1, round(count / total * width)) for state, count in shown if count}
    while (excess := sum(widths.values()) - width) > 0:
        largest = max(widths, key=lambda state: widths[state])
        widths[largest] -= min(excess, widths[largest] - 1) or excess
    bar = Text()
    for state, cells in widths.items():
        bar.append(marks.states[state] * cells, STYLES[state])
    return bar
