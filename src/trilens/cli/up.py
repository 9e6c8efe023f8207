"""`trilens up`: run the server."""

from pathlib import Path
from typing import Annotated

import typer


def up(
    config: Annotated[
        Path | None, typer.Option(help="Settings file [default: trilens.yaml here, if there is one].")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data directory.")] = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT to listen on.")] = None,
) -> None:
    """Run the server until it is interrupted."""
    from trilens.serve.run import run_server
    from trilens.settings.load import load_settings
    from trilens.settings.tree import Settings

    def load() -> Settings:
        overrides = {"storage.data_dir": data, "server.listen": listen}
        return load_settings(config, overrides)

    run_server(load)
