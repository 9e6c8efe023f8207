"""`trilens restore`: a data directory made of a backup."""

from pathlib import Path
from typing import Annotated

import typer


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup: a directory or a tar file.")],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data directory to make; new, or empty.")
    ] = Path("trilens-data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print what it has as JSON.")] = False,
) -> None:
    """Make a data directory of a backup, for trilens up --data.

    Every file of the backup is checked first, and one that is damaged is named. A backup of an older Trilens
    is brought to today's schema.
    """
    import json

    from trilens.cli.backup_text import restored_sentence, told, valid_again
    from trilens.model.errors import ConfigError
    from trilens.store.backup_restore import restore as restore_backup

    if not backup.exists():
        raise ConfigError(f"no such backup: {backup}")
    manifest, schema = restore_backup(backup, data)
    made = told(backup, manifest)
    if again := valid_again(made):
        typer.echo(f"trilens: {again}", err=True)
    typer.echo(
        json.dumps({**made, "data": str(data), "schema": schema})
        if as_json
        else restored_sentence(made, data, schema)
    )
