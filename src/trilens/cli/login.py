"""`trilens login` and `trilens logout`: a token that commands send to a server without being told it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilens.cli.options import Server

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = "/?terminal=1"


def login(
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print who you are there.")] = False,
) -> None:
    """Log in to a server: commands then need no TRILENS_TOKEN for it.

    Where people log in with a provider, the server's page has a login to paste here; it may what you may, and
    ends when that of your browser does. Elsewhere paste a token. It is read from standard input where that is
    no terminal, and kept in ~/.config/trilens, for you alone.
    """
    import json

    from trilens.model.errors import ConfigError
    from trilens.settings.header import UNSENDABLE, is_sendable
    from trilens.settings.kept_logins import keep_login

    url, file = _place(server)
    me = _me(url)
    if me["ways"]:
        token = _asked(url, me["ways"])
        if not token or not is_sendable(token):
            raise ConfigError(f"the token {UNSENDABLE}" if token else "nothing was pasted")
        me = _me(url, token)
        if me["name"] is None:
            raise ConfigError(f"{url} does not take this", hint="it is wrong or over: get a new one")
        keep_login(file, url, token)
    else:
        typer.echo(f"{url} lets in whoever is on its machine: there is nothing to keep", err=True)
    typer.echo(json.dumps(me, ensure_ascii=False) if as_json else _sentence(url, me))


def logout(
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print whether there was one.")] = False,
) -> None:
    """Forget the login to a server on this machine.

    That of the browser goes on: Log out there ends both.
    """
    import json

    from trilens.settings.kept_logins import keep_login

    url, file = _place(server)
    was_there = keep_login(file, url, None)
    if as_json:
        typer.echo(json.dumps({"server": url, "forgotten": was_there}, ensure_ascii=False))
    else:
        typer.echo(f"{url}: {'the login is forgotten' if was_there else 'there was no login'}")


def _place(server: str | None) -> "tuple[str, Path | None]":
    from trilens.settings.client import named_server
    from trilens.settings.kept_logins import logins_file

    return named_server(server), logins_file()


def _me(url: str, token: str | None = None) -> dict[str, Any]:
    """Who one is there with this token, or with what is known already."""
    from trilens.cli.client import Client

    with Client(url, token=token) as client:
        found: dict[str, Any] = client.get("/auth/me")["data"]
    return found


def _asked(url: str, ways: list[str]) -> str:
    import sys

    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    if "oidc" in ways:
        typer.echo(f"Open {url}{_PAGE} in a browser, log in there, and copy what it shows.", err=True)
    else:
        typer.echo(f"{url} wants a token; whoever runs it makes you one: trilens token create", err=True)
    answer: str = typer.prompt("Paste it here (it is not shown)", hide_input=True, err=True)
    return answer.strip()


def _sentence(url: str, me: dict[str, Any]) -> str:
    from trilens.cli.times import show_moment

    may = "; ".join(f"{', '.join(grant['rights'])}{_bounds(grant)}" for grant in me["grants"])
    may = may or "do nothing: whoever runs it grants it, in access.grants"
    until = f", until {show_moment(me['ends_ms'] // 1000)}" if me["ends_ms"] is not None else ""
    return f"{url}: you are {me['name']}, and may {may}{until}"


def _bounds(grant: dict[str, Any]) -> str:
    named = [
        f"{kind} {name}"
        for kind, names in (("team", grant["teams"]), ("cluster", grant["clusters"]))
        for name in names or ()
    ]
    return f" of {', '.join(named)}" if named else ""
