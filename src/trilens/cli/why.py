"""`trilens why`: what is the cause, how sure that is, what to do, and what it rests on."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilens.cli.completion import subjects
from trilens.cli.options import AllNamespaces, Namespace, Server

if TYPE_CHECKING:
    from trilens.cli.client import Client

_INCIDENTS = 5  # of which the cause is looked for


def why(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD|POD|NODE|INCIDENT",
            help="A name, NAMESPACE/NAME, KIND/NAME, pod/NAME, node/NAME, CLUSTER/NAMESPACE/KIND/NAME, or "
            "the id of an incident.",
            autocompletion=subjects,
        ),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="What is looked at begins here: 1h, or a moment.")
    ] = "1h",
    execute: Annotated[
        bool,
        typer.Option("--exec", help="Also run nvidia-smi inside its containers, where that is allowed."),
    ] = False,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of what is in a bundle of trilens bundle.")
    ] = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Say why something goes wrong: the cause, how sure that is, what to do, and the way to it.

    Without a name: what is wrong now, with the cause of each. A bundle needs no server.
    """
    from trilens.cli.why_text import show_why
    from trilens.model.errors import ConfigError

    if bundle is not None:
        if subject is not None or execute:
            raise ConfigError("a bundle is about one thing, and nothing can be run in it", where="--bundle")
        answer = _of_bundle(bundle)
    elif subject is None:
        _show_open(server, since, as_json=as_json)
        return
    else:
        from trilens.cli.client import Client
        from trilens.cli.progress import waiting

        with Client(server) as client, waiting(f"looking into {subject}"):
            answer = _asked(client, case_params(subject, namespace, all_namespaces, since, execute=execute))
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
    else:
        show_why(answer)


def case_params(
    subject: str, namespace: str | None, all_namespaces: bool, since: str, *, execute: bool = False
) -> dict[str, str]:
    """What a case is asked for with."""
    from trilens.cli.kubectl import namespace_wanted
    from trilens.cli.times import read_since

    params = {"subject": subject, "from": f"{read_since(since, time.time()):.3f}"}
    if (wanted := namespace_wanted(namespace, all_namespaces)) is not None:
        params["namespace"] = wanted
    return {**params, "exec": "true"} if execute else params


def _asked(client: "Client", params: dict[str, str]) -> dict[str, Any]:
    asked = client.post("/api/why", params=params) if "exec" in params else client.get("/api/why", params)
    answer: dict[str, Any] = asked["data"]
    return answer


def _of_bundle(file: Path) -> dict[str, Any]:
    from trilens.diagnose.bundle import read_bundle
    from trilens.diagnose.case import Case
    from trilens.diagnose.told import told
    from trilens.diagnose.walk import why as walk

    case = read_bundle(file)
    return told(case, walk(Case(case)))


def _show_open(server: str | None, since: str, *, as_json: bool) -> None:
    """The gravest incidents, each with the verdict on whom it hits first."""
    from trilens.cli.client import Client
    from trilens.cli.progress import waiting
    from trilens.cli.why_text import show_open
    from trilens.model.errors import ServerError

    found: list[dict[str, Any]] = []
    with Client(server) as client, waiting("looking into what is open"):
        incidents = client.get("/api/incidents")["data"]
        for incident in incidents[:_INCIDENTS]:
            subject = whom(incident)
            answer, trouble = None, None
            if subject is not None:
                try:
                    answer = _asked(client, case_params(incident["id"], None, True, since))
                except ServerError as e:  # it may be gone meanwhile; the others are not
                    trouble = str(e)
            found.append({"incident": incident, "subject": subject, "why": answer, "error": trouble})
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    elif not found:
        typer.echo("nothing is wrong that is known; trilens why NAME looks at one workload", err=True)
    else:
        show_open(found, more=len(incidents) - len(found))


def whom(incident: dict[str, Any]) -> str | None:
    """The workload that it is about, or the node."""
    subject = incident["subject"]
    if (workload := subject["workload"]) is not None:
        kind = f"{workload['kind']}.{workload['group']}" if workload["group"] else workload["kind"]
        return f"{workload['cluster']}/{workload['namespace']}/{kind}/{workload['name']}"
    return f"node/{subject['node']}" if subject["node"] is not None else None
