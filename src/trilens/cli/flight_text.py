"""The verdict on dumps as people read it: who and why first, then what to do, then what it rests on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from trilens.cli.paragraph import say
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from trilens.diagnose.flight.flight_verdict import FlightVerdict


def show_verdict(verdict: FlightVerdict) -> None:
    typer.echo(_head(verdict))
    say(verdict.text)
    for link in verdict.chain:
        say(link, "why:")
    if verdict.since_ms is not None and verdict.waiting:
        since = datetime.fromtimestamp(verdict.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        say(f"since {since}", "when:")
    for one in verdict.doing:
        say(f"rank {one.rank} {one.text} ({one.source})", "seen:")
    for number, step in enumerate(verdict.fix, 1):
        say(f"{number}. {step}" if len(verdict.fix) > 1 else step, "do:" if number == 1 else "")
    for other in verdict.others:
        say(other, "also:")
    for missing in verdict.missing:
        say(f"{missing.what}. To know it: {missing.remedy}", "lack:")
    typer.echo(f"{verdict.ranks} of {verdict.world} ranks dumped")


def _head(verdict: FlightVerdict) -> str:
    if verdict.reason is Reason.UNKNOWN:
        return "cannot tell"
    who = f": {ranks_name(verdict.culprits)}" if verdict.culprits else ""
    named = f"{verdict.reason}{who} ({verdict.confidence:.0%} sure)"
    return named if verdict.can_tell else f"cannot tell; perhaps {named}"
