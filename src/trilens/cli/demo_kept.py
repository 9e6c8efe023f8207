"""The night of `trilens demo`, made once and kept in the user's cache."""

from __future__ import annotations

import hashlib
import shutil
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

import typer

from trilens import __version__

if TYPE_CHECKING:
    from trilens.serve.rehearsal.kept_night import Night

CLUSTER: Final = "demo"


class KeptNight(NamedTuple):
    folder: Path
    night: Night


def night_to_open_on(seed: int) -> KeptNight | None:
    """The one that is kept. Nobody who wants a first look waits minutes for it to be made."""
    from trilens.serve.rehearsal.kept_night import kept

    folder = night_folder(seed)
    night = kept(folder)
    if night is None:
        typer.echo(
            "This is a small cluster. `trilens demo --prepare` makes a bad night of 160 GPUs, once and in "
            "some minutes; the demo opens on it from then on.\n",
            err=True,
        )
        return None
    return KeptNight(folder, night)


def night_folder(seed: int) -> Path:
    """Of what a night depends on. Who changes detectors or rules has it made anew with --prepare."""
    from trilens.serve.rehearsal.bad_night import SCENARIO
    from trilens.settings.caches import cache_folder
    from trilens.store.migrations import MIGRATIONS

    scenario = resources.files("trilens.simulate") / "scenarios" / f"{SCENARIO}.yaml"
    digest = hashlib.blake2b(scenario.read_bytes(), digest_size=6).hexdigest()
    return cache_folder() / "demo" / f"{__version__}-{MIGRATIONS[-1].version}-{digest}-{seed}"


def prepare_night(seed: int) -> Path:
    """Made beside its place and moved there: what is there is whole."""
    from trilens.cli.hours_progress import hours_progress
    from trilens.serve.rehearsal.bad_night import HOURS, prepare
    from trilens.settings.load import validate

    folder = night_folder(seed)
    typer.echo("The night of the demo is made once and kept; it takes a few minutes.", err=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="making-", dir=folder.parent) as directory:
        settings = validate({"storage": {"data_dir": f"{directory}/data"}})
        made = Path(directory) / "night"
        with hours_progress("of the night watched", HOURS) as passed:
            prepare(settings, CLUSTER, seed, made, passed)
        if folder.exists():
            shutil.rmtree(folder)  # what somebody left half written
        made.rename(folder)
    for old in folder.parent.iterdir():
        if old != folder and old.name.endswith(f"-{seed}"):
            shutil.rmtree(old, ignore_errors=True)  # of another version: nobody asks for it again
    return folder
