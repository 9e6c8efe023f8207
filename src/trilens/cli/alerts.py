"""`trilens alerts`: the alerts that fire now."""

import time
from datetime import datetime
from typing import Annotated, Any

import typer

from trilens.cli.options import AsCsv, AsList, OfSeverity, Server

_GRAVITY = {"critical": 0, "warning": 1, "info": 2}
_PLACE = ("rank", "pod", "node", "gpu")


def alerts(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are pending: true, but not for long enough yet.")
    ] = False,
    severity: OfSeverity = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the alerts that fire now, the gravest first.

    Those of one cause are one incident: trilens incidents has them together.
    """
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.times import show_length
    from trilens.model.errors import ServerError

    with Client(server) as client:
        answer = client.get("/api/v1/alerts")["data"]
    if not isinstance(answer, dict):  # an Alertmanager has the same path
        raise ServerError("the server has alerts of another kind", hint="is it a Trilens server?")
    told = answer["alerts"]
    found = sorted(
        (
            one
            for one in told
            if (everything or one["state"] == "firing") and severity in (None, one["labels"].get("severity"))
        ),
        key=_order,
    )
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if not found:
        typer.echo("no alert fires", err=True)
        return
    now_s = time.time()
    print_table(
        ["severity", "alert", "state", "for", "of", "summary"],
        [
            [
                one["labels"].get("severity", "-"),
                one["labels"].get("alertname", "-"),
                one["state"],
                show_length(max(now_s - _seconds(one["activeAt"]), 0.0)),
                _subject(one["labels"]),
                _summary(one["annotations"]),
            ]
            for one in found
        ],
        may_go=("state",),
        folds=("of", "summary"),
    )


def _order(alert: dict[str, Any]) -> tuple[bool, int, str]:
    severity = alert["labels"].get("severity", "")
    return alert["state"] != "firing", _GRAVITY.get(severity, 3), alert["activeAt"]


def _subject(labels: dict[str, str]) -> str:
    """Whom it is about, as short as it can be said: a UUID only where nothing else tells the GPU."""
    place = [labels[name] for name in ("cluster", "namespace", "workload") if labels.get(name)]
    told = [f"{name}={labels[name]}" for name in _PLACE if labels.get(name)]
    if labels.get("UUID") and not labels.get("rank") and not labels.get("gpu"):
        told.append(f"UUID={labels['UUID']}")
    return " ".join((["/".join(place)] if place else []) + told) or "-"


def _summary(annotations: dict[str, str]) -> str:
    return annotations.get("summary") or annotations.get("description") or "-"


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
