"""The verdict on logs as people read it: the cause first, then what to do, then what it rests on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from trilens.cli.paragraph import say
from trilens.cli.plain_table import print_table
from trilens.diagnose.logs.log_verdict import UNKNOWN
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from trilens.diagnose.logs.log_verdict import Follower, LogVerdict, Told

_LINE: Final = 160  # characters of a log's line
_ROWS: Final = 15


def show_verdict(verdict: LogVerdict) -> None:
    typer.echo(_head(verdict))
    say(verdict.text)
    if verdict.number:
        place = f"{verdict.file}:{verdict.number}"
        named = str(verdict.who) if verdict.who.rank is not None or verdict.who.host else ""
        say(f"{named}, {place}" if named else place, "at:")
        say(_short(verdict.line), "line:")
    if verdict.why:
        say(verdict.why, "seen:")
    for number, step in enumerate(verdict.fix, 1):
        say(f"{number}. {step}" if len(verdict.fix) > 1 else step, "do:" if number == 1 else "")
    for one in verdict.others:
        say(f"{one.cause} on {one.who}: {_short(one.text)}", "or:")
    if verdict.follows:
        say("; ".join(_follower(one) for one in verdict.follows), "then:")
    for host, offset in sorted(verdict.skew_ms.items()):
        say(
            f"the clock of {host} is {abs(offset) / 1000:.0f} s {'ahead' if offset > 0 else 'behind'}",
            "note:",
        )
    for missing in verdict.missing:
        say(f"{missing.what}. To know it: {missing.remedy}", "lack:")
    if len(verdict.order) > 1:
        typer.echo()
        _show_order(verdict.order)


def _head(verdict: LogVerdict) -> str:
    if verdict.cause == UNKNOWN:
        return "cannot tell"
    named = f"{verdict.cause} ({verdict.layer}, {verdict.confidence:.0%} sure)"
    return named if verdict.can_tell else f"cannot tell; perhaps {named}"


def _follower(one: Follower) -> str:
    if not one.ranks:
        return one.cause
    return f"{one.cause} on {ranks_name(one.ranks)}"


def _show_order(order: tuple[Told, ...]) -> None:
    typer.echo("In this order:")
    rows = [
        [
            _clock(one.t_ms),
            "" if one.who.rank is None else str(one.who.rank),
            one.who.host,
            one.cause,
            f"{one.file}:{one.number}",
            _short(one.text),
        ]
        for one in order[:_ROWS]
    ]
    titles = ["TIME", "RANK", "HOST", "CLASS", "WHERE", "LINE"]
    print_table(titles, rows, may_go=["WHERE", "HOST", "TIME"], folds=["LINE"])
    if len(order) > _ROWS:
        typer.echo(f"... and {len(order) - _ROWS} more (--json has them)")


def _clock(t_ms: int | None) -> str:
    return "" if t_ms is None else datetime.fromtimestamp(t_ms / 1000, UTC).strftime("%H:%M:%S")


def _short(text: str) -> str:
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."
