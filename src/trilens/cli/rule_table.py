"""Rules as a table, and what blind ones need."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import typer

from trilens.cli.plain_table import print_table


def show_rules(rules: list[dict[str, Any]]) -> None:
    print_table(
        ["group", "type", "rule", "state", "health", "took", "error"],
        [
            [
                rule["group"],
                rule["type"],
                rule["name"],
                _state(rule),
                rule["health"],
                f"{1000 * rule['evaluationTime']:.1f} ms",
                rule.get("lastError", ""),
            ]
            for rule in rules
        ],
        may_go=("type", "group"),
        folds=("error",),
    )
    _show_blind([rule for rule in rules if "blind" in rule])


def _state(rule: dict[str, Any]) -> str:
    """How many alerts there are of each state; that a rule is quiet means nothing where it is blind."""
    counts = Counter(alert["state"] for alert in rule.get("alerts", ()))
    told = ", ".join(f"{counts[state]} {state}" for state in ("firing", "pending") if counts[state])
    return told or ("blind" if "blind" in rule else rule.get("state", ""))


def _show_blind(rules: list[dict[str, Any]]) -> None:
    by_remedy: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for rule in rules:
        by_remedy[rule["blind"]["remedy"]].append(rule)
    for remedy, some in by_remedy.items():
        typer.echo("")
        for rule in some:
            typer.echo(
                f"blind: {rule['name']} looks at what is nowhere: {', '.join(rule['blind']['missing'])}"
            )
        typer.echo(f"  do: {remedy}")
