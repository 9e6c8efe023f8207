"""`trilens config check`: read a settings file as the server would, and say what is wrong with it."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Settings files.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Settings files."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trilens.yaml.")],
) -> None:
    """Check a settings file, and the scrape configuration in it."""
    from trilens.serve.compose import scrape_configs
    from trilens.serve.security import required_token
    from trilens.settings.load import load_settings

    settings = load_settings(file, environ={})
    required_token(settings.server)
    jobs = scrape_configs(settings)
    typer.echo(f"{file}: fine, {len(jobs)} scrape job{'' if len(jobs) == 1 else 's'}")
