"""`trilens run`: starts a program so that it is watched without a change to its code."""

import os
import re
from typing import Annotated, NoReturn

import typer

from trilens.cli.options import Server


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND [ARGUMENT]...", help="The program, as you start it now."),
    ],
    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="Groups runs.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call this run.")] = None,
    run_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Its id, the same on all nodes [default: the launcher's, or new]."),
    ] = None,
    total_steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Optimizer steps in all: for progress and time left."),
    ] = None,
    server: Server = None,
) -> NoReturn:
    """Start a program and watch its training from inside, without a change to its code.

    The program takes the place of this command: its output, its exit code and signals to it are as they are
    without it. Launchers may stand in between: trilens run -- torchrun --nproc-per-node 8 train.py

    Seen are steps, their phases, the learning rate and the samples of PyTorch programs. A loss is seen only
    where the Hugging Face Trainer or Lightning tells it. A program that calls trilens.init() is left alone.
    """
    from pathlib import Path

    import trilens.sdk
    from trilens.model.errors import ConfigError
    from trilens.settings.attached import attached_environment

    given = {
        "TRILENS_EXPERIMENT": experiment,
        "TRILENS_RUN_NAME": name,
        "TRILENS_RUN_ID": _run_id(run_id),
        "TRILENS_TOTAL_STEPS": None if total_steps is None else str(total_steps),
        "TRILENS_SERVER": _server(server),
    }
    entry = Path(trilens.sdk.__file__).parent / "attach_site"
    try:
        os.execvpe(command[0], command, attached_environment(entry, given))  # noqa: S606 - what was asked for
    except OSError as error:
        raise ConfigError(
            f"cannot start {command[0]!r}: {error.strerror}", hint="as in: trilens run -- python train.py"
        ) from error


def _run_id(given: str | None) -> str | None:
    from trilens.model.errors import ConfigError
    from trilens.model.run_id import RUN_ID_PATTERN, RUN_ID_RULE

    if given is not None and not re.fullmatch(RUN_ID_PATTERN, given):
        raise ConfigError(f"{given!r} is no run id", hint=RUN_ID_RULE, where="--run-id")
    return given


def _server(given: str | None) -> str | None:
    from trilens.settings.client import load_client_settings

    return None if given is None else load_client_settings(given).server
