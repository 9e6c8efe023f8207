"""`trilens up`: run the server."""

from pathlib import Path
from typing import Annotated

import typer


def up(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings file [default: trilens.yaml here, if there is one]."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data directory [default: trilens-data here].")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen [default: 127.0.0.1:9333].")
    ] = None,
) -> None:
    """Run the server until it is interrupted."""
    from trilens import __version__
    from trilens.serve.run import run_server
    from trilens.settings.load import load_settings
    from trilens.settings.tree import Settings

    def load() -> Settings:
        overrides = {"storage.data_dir": data, "server.listen": listen}
        return load_settings(config, overrides)

    def announce(url: str, settings: Settings) -> None:
        if settings.server.log_format == "text":  # or the log says it, in the form that its reader wants
            typer.echo(f"Trilens {__version__} runs at {url} - Ctrl-C ends it")

    run_server(load, announce)
