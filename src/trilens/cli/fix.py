"""`trilens fix`: what could be done about something, and doing it, as the server's policy allows."""

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from trilens.cli.completion import subjects
from trilens.cli.help_text import Commands
from trilens.cli.options import AllNamespaces, AsCsv, AsList, Namespace, Server
from trilens.model.fix import Deed

if TYPE_CHECKING:
    from trilens.cli.client import Client

_INCIDENT = re.compile(r"\d{8}-\d{4}-[0-9a-f]+")
_PROPOSE = "propose"


class _OrPropose(Commands):
    """`trilens fix NAME` is `trilens fix propose NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = [_PROPOSE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_OrPropose,
    help="Mend what is wrong, as the policy allows.\n\n"
    "`trilens fix NAME ...` is `trilens fix propose NAME ...`, and without a name it lists what waits for "
    "approval.",
)

By: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="Who wants it [default: you].")]
Id: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="As trilens fix log has it.")]
AsObject: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one object.")]


@app.command()
def propose(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD|POD|NODE|INCIDENT",
            help="A name, NAMESPACE/NAME, KIND/NAME, pod/NAME, node/NAME, or an incident's id.",
            autocompletion=subjects,
        ),
    ] = None,
    deed: Annotated[
        Deed | None, typer.Option("--deed", metavar="DEED", help=f"What to do: {', '.join(Deed)}.")
    ] = None,
    do: Annotated[bool, typer.Option("--do", help="Do it; without, it is only tried out.")] = False,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None,
    annotations: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="To annotate; may be repeated, empty takes it away."
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="To evict: wait so long for a PodDisruptionBudget, 1m at most."
        ),
    ] = None,
    by: By = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Propose what could be done about something; with a deed, try it out, and with --do, do it.

    Without a name: what waits for approval.
    """
    from trilens.cli.client import Client
    from trilens.cli.fix_text import show_fix, show_fixes, show_proposals
    from trilens.cli.kubectl import namespace_wanted
    from trilens.cli.user import user_name
    from trilens.model.errors import ConfigError

    with Client(server) as client:
        if subject is None:
            if deed is not None or do:
                raise ConfigError("nobody is named to whom it should be done")
            found = client.get("/api/fixes", {"state": "waiting"})["data"]
            _print(found, as_json, show_fixes, "nothing waits for approval; trilens fix NAME proposes")
            return
        params = {"subject": _named(client, subject)}
        if (wanted := namespace_wanted(namespace, all_namespaces)) is not None:
            params["namespace"] = wanted
        if deed is None:
            proposed = client.get("/api/fixes/proposals", params)["data"]
            if not do:
                nothing = (
                    f"nothing is known that a machine should do; trilens why {subject} says what people can"
                )
                _print(proposed, as_json, show_proposals, nothing)
                return
            if len(proposed) != 1:
                deeds = ", ".join(f"{one['deed']} of {one['subject']}" for one in proposed) or "nothing"
                raise ConfigError(f"there is no one thing to do: proposed is {deeds}", hint="name it: --deed")
            deed, params = Deed(proposed[0]["deed"]), {"subject": proposed[0]["subject"]}
            why, params["source"] = why or proposed[0]["why"], proposed[0]["source"]
        if deed is Deed.ANNOTATE and not annotations:
            raise ConfigError("no annotation is given", hint="--set NAME=VALUE, once for each")
        form: dict[str, Any] = {**params, "deed": deed.value, "by": by or user_name()}
        given = {"why": why, "wait": wait, "set": annotations, "do": "true" if do else None}
        form |= {name: value for name, value in given.items() if value}
        fix = client.post("/api/fixes", form=form)["data"]
    _print([fix], as_json, lambda fixes: show_fix(fixes[0]), "")
    if fix["state"] == "failed":
        raise typer.Exit(1)


@app.command()
def log(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The latest so many.")] = 100,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only waiting, begun, done, failed or dropped.")
    ] = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List what was done, or waits to be: who, what, why, before and after, the latest first."""
    from trilens.cli.client import Client
    from trilens.cli.fix_text import show_fixes

    params = {"limit": str(limit), **({"state": state} if state else {})}
    with Client(server) as client:
        found = client.get("/api/fixes", params)["data"]
    _print(found, as_json, show_fixes, "nothing was done yet", as_csv=as_csv)


@app.command()
def approve(id: Id, by: By = None, server: Server = None, as_json: AsObject = False) -> None:
    """Do what waits for approval."""
    _answered("approve", id, by, server, as_json=as_json)


@app.command()
def undo(id: Id, by: By = None, server: Server = None, as_json: AsObject = False) -> None:
    """Take back what was done; of what waits, that it is not wanted."""
    _answered("undo", id, by, server, as_json=as_json)


def _answered(verb: str, id: str, by: str | None, server: str | None, *, as_json: bool) -> None:
    from urllib.parse import quote

    from trilens.cli.client import Client
    from trilens.cli.fix_text import show_fix
    from trilens.cli.user import user_name

    with Client(server) as client:
        path = f"/api/fixes/{quote(id, safe='')}/{verb}"
        fix = client.post(path, form={"by": by or user_name()})["data"]
    if as_json:
        typer.echo(json.dumps(fix, ensure_ascii=False))
    else:
        show_fix(fix)
    if fix["state"] == "failed":
        raise typer.Exit(1)


def _print(
    found: list[dict[str, Any]], as_json: bool, show: Any, nothing: str, *, as_csv: bool = False
) -> None:
    from trilens.cli.listing import is_printed

    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        show(found)
    else:
        typer.echo(nothing, err=True)


def _named(client: "Client", subject: str) -> str:
    """An incident stands for the workload or the node that it is about."""
    from trilens.cli.why import whom
    from trilens.model.errors import ConfigError, ServerError

    if not _INCIDENT.fullmatch(subject):
        return subject
    try:
        incident = client.get(f"/api/incidents/{subject}")["data"]
    except ServerError:  # so it is a name that looks like one
        return subject
    found = whom(incident)
    if found is None:
        raise ConfigError(f"the incident {subject} is about no workload and no node")
    return found
