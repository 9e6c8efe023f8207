"""`trilens backup`: a copy of everything, of a running server or of a data directory at rest."""

from pathlib import Path
from typing import Annotated

import typer

from trilens.cli.options import Server


def backup(
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIRECTORY|FILE.tar",
            help="Where to put it: a new directory, or a tar file. Else it stays with the server.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Back up this data directory, which no server has open."),
    ] = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is in it as JSON.")] = False,
) -> None:
    """Make a backup, while the server goes on.

    The server writes it to storage.backup_dir, where it stays until storage.backup_keep newer ones are there.
    All that was acknowledged before the command began is in it. trilens restore makes a data directory of it.
    """
    import json

    from trilens.cli.backup_making import back_up_at_rest, back_up_server, refuse_archives
    from trilens.cli.backup_text import made_sentence, told
    from trilens.model.errors import ConfigError

    if data is not None and server is not None:
        raise ConfigError("--data names a directory, --server a server", hint="give one of them")
    if data is not None and target is None:
        raise ConfigError(
            "--data needs to know where the backup goes", hint="name a new directory or FILE.tar"
        )
    if target is not None:
        refuse_archives(target)
    if target is not None and target.exists():
        raise ConfigError(f"{target} is there already", hint="name a new directory or file")
    if target is not None and not target.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {target.absolute().parent}", hint="make it first")
    if data is not None and target is not None:
        made = told(target, back_up_at_rest(data, target))
    else:
        made = back_up_server(server, target)
    typer.echo(json.dumps(made) if as_json else made_sentence(made, is_here=target is not None))
