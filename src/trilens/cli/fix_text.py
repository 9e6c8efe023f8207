"""Fixes and proposals as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from trilens.cli.times import show_moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def show_proposals(proposals: Sequence[Mapping[str, Any]]) -> None:
    for one in proposals:
        typer.echo(f"{one['deed']} {_target(one['target'])}, {one['confidence']:.0%} sure")
        typer.echo(f"    why:  {one['why']}  [{one['source']}]")
        typer.echo(f"    try:  trilens fix {one['subject']} --deed {one['deed']}")
        typer.echo(f"    do:   trilens fix {one['subject']} --deed {one['deed']} --do")


def show_fixes(fixes: Sequence[Mapping[str, Any]]) -> None:
    for one in fixes:
        show_fix(one)


def show_fix(fix: Mapping[str, Any]) -> None:
    head = "nothing was changed" if fix["state"] == "dry-run" else f"{fix['id']}, {fix['state']}"
    typer.echo(f"{fix['deed']} {_target(fix['target'])}: {head}")
    approved = f", approved by {fix['approved_by']}" if fix["approved_by"] else ""
    typer.echo(f"    by:   {fix['by'] or 'somebody'}{approved}, {show_moment(fix['t_ms'] / 1000)}")
    if fix["why"]:
        source = f"  [{fix['source']}]" if fix["source"] else ""
        typer.echo(f"    why:  {fix['why']}{source}")
    if fix["held_back"] and fix["state"] == "waiting":
        typer.echo(f"    held: {fix['held_back']}; trilens fix approve {fix['id']}")
    if fix["before"]:
        typer.echo(f"    was:  {_facts(fix['before'])}")
    if fix["after"]:
        typer.echo(f"    {'would' if fix['state'] == 'dry-run' else 'now'}:{_pad(fix)}{_facts(fix['after'])}")
    if fix["result"]:
        typer.echo(f"    note: {fix['result']}")
    if fix["undone_by"]:
        typer.echo(f"    undo: taken back by {fix['undone_by']}")
    elif fix["undo"]:
        typer.echo(f"    undo: trilens fix undo {fix['id']}")


def _pad(fix: Mapping[str, Any]) -> str:
    return " " if fix["state"] == "dry-run" else "  "


def _facts(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in facts.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else str(value)


def _target(target: Mapping[str, Any]) -> str:
    where = f"{target['namespace']}/" if target["namespace"] else ""
    return f"{target['kind'].lower()} {where}{target['name']} ({target['cluster']})"
