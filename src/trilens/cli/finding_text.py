"""Findings as people read them."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.paragraph import say
from trilens.cli.times import show_moment


def show_findings(findings: list[dict[str, Any]]) -> None:
    """A paragraph each: a table has no room for what to do."""
    for number, finding in enumerate(findings):
        if number:
            typer.echo()
        typer.echo(f"{finding['severity']:8}  {finding['code']} {_name(finding)}  {_when(finding)}")
        say(finding["text"])
        say(finding["action"], "do:")
        for evidence in finding["evidence"]:
            say(evidence["text"], "seen:")
        for doubt in finding["doubts"]:
            say(doubt["text"], "but:")


def _name(finding: dict[str, Any]) -> str:
    kind: str = finding["kind"]
    sure = "" if finding["confidence"] >= 0.9 else f", {finding['confidence']:.0%} sure"
    return f"{kind} ({finding['cause']}{sure})" if finding["cause"] else f"{kind}{sure}"


def _when(finding: dict[str, Any]) -> str:
    since = f"since {show_moment(finding['onset_ms'] // 1000)}"
    if finding["ended_ms"] is None:
        return since
    return f"{since} until {show_moment(finding['ended_ms'] // 1000)}"
