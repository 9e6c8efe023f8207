"""`trilens token`: tokens for people and programs."""

import json
import sys
import time
from typing import Annotated, Any, Final

import typer

from trilens.cli.options import AsCsv, AsList, Server
from trilens.model.identity import Right

_LONGEST_NAME: Final = 200  # as the server takes it

app = typer.Typer(no_args_is_help=True)


@app.callback()
def token() -> None:
    """Make, list and revoke tokens, each with rights of its own."""


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose it is, as the audit shows it.", metavar="NAME")],
    rights: Annotated[
        list[Right],
        typer.Option("--right", metavar="RIGHT", help="intake, read, fix or admin; several are allowed."),
    ],
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only of this cluster; several.")
    ] = None,
    teams: Annotated[
        list[str] | None, typer.Option("--team", metavar="NAME", help="Only of this team; several.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="After so long, 90d, or at a moment [default: never]."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no server: print an entry for access.tokens_file.")
    ] = False,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object.")] = False,
) -> None:
    """Make a token. Its secret is shown once, and kept nowhere.

    The secret goes to standard output, everything else to standard error.
    """
    from trilens.model.errors import ConfigError
    from trilens.model.grants import grant_of

    expires_s = _expiry(expires, time.time())
    if not 0 < len(name) <= _LONGEST_NAME:
        raise ConfigError(f"a token needs a name, of {_LONGEST_NAME} characters at the most", where="NAME")
    try:
        grant_of(rights, clusters or (), teams or ())
    except ValueError as e:
        raise ConfigError(str(e)) from e
    bounds = {"clusters": clusters or [], "teams": teams or []}
    wanted: dict[str, Any] = {"name": name, "rights": [right.value for right in rights], **bounds}
    if offline:
        _create_offline(wanted, expires_s, as_json=as_json)
        return
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client

    if expires_s is not None:
        wanted["expires_ms"] = round(expires_s * 1000)
    with Client(server) as client:
        answer = client.post("/api/tokens", body=json.dumps(wanted).encode())
    show_notes(answer)
    if as_json:
        typer.echo(json.dumps(answer["data"], ensure_ascii=False))
        return
    typer.echo(answer["data"]["secret"])
    typer.echo(f"token {answer['data']['token']['id']}: keep it, for it is not shown again", err=True)


@app.command(name="list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the tokens that are valid."""
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table

    with Client(server) as client:
        answer = client.get("/api/tokens", {"all": "true"} if everything else None)
    show_notes(answer)
    found = answer["data"]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if not found:
        typer.echo("no tokens", err=True)
        return
    print_table(
        ["id", "name", "state", "rights", "of", "made", "by", "expires", "used"],
        [
            [
                one["id"],
                one["name"],
                one["state"],
                " ".join(one["rights"]),
                _bounds(one),
                "declared" if one["declared"] else _moment(one["created_ms"]),
                one["created_by"] or "",
                _moment(one["expires_ms"]) or "never",
                _moment(one["used_ms"]) or "never",
            ]
            for one in found
        ],
        may_go=("made", "by"),
    )


@app.command()
def revoke(
    ids: Annotated[list[str], typer.Argument(help="Tokens, by their ids.", metavar="ID")],
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """End tokens now; every server of the same store knows within seconds."""
    from urllib.parse import quote

    from trilens.cli.client import Client

    ended: list[dict[str, Any]] = []
    try:
        with Client(server) as client:
            for one in ids:
                answer = client.post(f"/api/tokens/{quote(one, safe='')}/revoke")
                ended.append(answer["data"])
    finally:  # also of those before one that could not be ended
        if as_json and ended:
            typer.echo(json.dumps(ended, ensure_ascii=False))
        elif not as_json:
            for done in ended:
                typer.echo(f"{done['id']} ({done['name']}) is revoked")


@app.command(name="hash")
def hash_(
    as_json: Annotated[bool, typer.Option("--json", help="Print an object, with its id.")] = False,
) -> None:
    """Print the hash of a token that is read from standard input, as access.tokens_file has it."""
    from trilens.model.access_token import digest_of, read_token
    from trilens.model.errors import ConfigError

    found = read_token(sys.stdin.read().strip())
    if found is None:
        raise ConfigError("this is no token of trilens token create", hint="it begins with trl_")
    digest = digest_of(found.secret)
    typer.echo(json.dumps({"id": found.id, "sha256": digest}) if as_json else digest)


def _create_offline(wanted: dict[str, Any], expires_s: float | None, *, as_json: bool) -> None:
    from trilens.cli.times import show_moment
    from trilens.model.access_token import digest_of, new_secret, text_of

    if wanted["teams"] or wanted["clusters"]:
        typer.echo("no server was asked whether there are such teams and clusters", err=True)
    made = new_secret()
    entry = {"id": made.id, "name": wanted["name"], "sha256": digest_of(made.secret)}
    entry |= {key: wanted[key] for key in ("rights", "clusters", "teams") if wanted[key]}
    if expires_s is not None:
        entry["expires"] = show_moment(round(expires_s))
    if as_json:
        typer.echo(json.dumps({"secret": text_of(made), "entry": entry}, ensure_ascii=False))
        return
    import yaml

    # Below `tokens:`, after those that are there.
    typer.echo(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True).rstrip())
    typer.echo(f"the token, which is not shown again: {text_of(made)}", err=True)


def _expiry(text: str | None, now_s: float) -> float | None:
    """So long from now, or a moment."""
    from trilens.cli.times import read_moment
    from trilens.model.errors import ConfigError
    from trilens.settings.duration import duration_ms

    if text is None:
        return None
    try:
        at_s = now_s + duration_ms(text) / 1000
    except ValueError:
        try:
            at_s = read_moment(text, now_s)
        except ConfigError as e:  # its hint is of moments in the past
            hint = "write 90d, 1900000000 or 2030-01-31T12:00:00Z"
            raise ConfigError(e.message, hint=hint, where="--expires") from e
    if at_s <= now_s:
        raise ConfigError("the token would be over before it is made", hint="--expires 90d: in 90 days")
    return at_s


def _bounds(token: dict[str, Any]) -> str:
    parts = [("team", token["teams"]), ("cluster", token["clusters"])]
    return " ".join(f"{kind}:{','.join(names)}" for kind, names in parts if names is not None) or "all"


def _moment(ms: int | None) -> str:
    from trilens.cli.times import show_moment

    return show_moment(ms // 1000) if ms is not None else ""
