"""The night of `trilens demo`: it comes with Trilens, or is made once and kept in the user's cache."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import typer

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.rehearsal.kept_night import Night


class KeptNight(NamedTuple):
    folder: Path
    night: Night


def night_to_open_on(seed: int) -> KeptNight | None:
    """The first that can be laid. Nobody who wants a first look waits minutes for another to be made."""
    found = next(_nights(seed), None)
    if found is None:
        typer.echo(
            "This is a small cluster. `trilens demo --prepare` makes a bad night of 160 GPUs, once and in "
            "some minutes; the demo opens on it from then on.\n",
            err=True,
        )
    return found


def say_if_old(night: Night) -> None:
    """To look takes longer than a demo should wait for."""
    from trilens.serve.rehearsal.night_sources import made_by

    if night.made_by != made_by():
        typer.echo(
            "This night was made before something that it follows from was changed: `trilens demo --prepare` "
            "makes it anew.",
            err=True,
        )


def prepare_night(seed: int, into: Path | None = None) -> Path:
    """It is made only where none is there that would come out the same; `into` is where one goes that comes
    with Trilens."""
    from trilens.serve.rehearsal.night_sources import made_by

    if into is not None:
        _check_may_be_replaced(into)
    found = next((one.folder for one in _nights(seed) if one.night.made_by == made_by()), None)
    folder = found or _make_night(seed)
    if into is None or into.resolve() == folder.resolve():
        return folder
    into.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="copying-", dir=into.parent) as directory:  # half of one could be no night
        copied = shutil.copytree(folder, Path(directory) / "night")
        if into.exists():
            shutil.rmtree(into)
        copied.rename(into)
    return into


def _check_may_be_replaced(folder: Path) -> None:
    """Before minutes are spent on a night that has no place. Raises ConfigError."""
    from trilens.serve.rehearsal.kept_night import kept

    is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free and kept(folder) is None:
        raise ConfigError(
            f"{folder} holds something else than a night, which would be deleted",
            hint="name a folder that is empty or not there yet",
            where="--into",
        )


def night_folder(seed: int) -> Path:
    """In the user's cache."""
    from trilens.serve.rehearsal.night_sources import night_key
    from trilens.settings.caches import cache_folder

    return cache_folder() / "demo" / night_key(seed)


def shipped_night() -> Path:
    """Beside what lays it; empty in a checkout of which no wheel was made."""
    from trilens.serve import rehearsal

    return Path(rehearsal.__file__).with_name("night")


def _nights(seed: int) -> Iterator[KeptNight]:
    """Those that can be laid."""
    from trilens.serve.rehearsal.kept_night import kept
    from trilens.serve.rehearsal.night_sources import night_key

    for folder in (night_folder(seed), shipped_night()):
        night = kept(folder)
        if night is not None and night.key == night_key(seed):
            yield KeptNight(folder, night)


def _make_night(seed: int) -> Path:
    """Made beside its place and moved there: what is there is whole."""
    from trilens.cli.progress import hours_progress
    from trilens.serve.rehearsal.bad_night import prepare
    from trilens.serve.rehearsal.night_cluster import HOURS, promised
    from trilens.settings.load import validate

    folder = night_folder(seed)
    typer.echo("The night of the demo is made once and kept; it takes a few minutes.", err=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="making-", dir=folder.parent) as directory:
        settings = validate({"storage": {"data_dir": f"{directory}/data"}, **promised()})
        made = Path(directory) / "night"
        with hours_progress("of the night watched", HOURS + 1) as passed:
            prepare(settings, seed, made, passed)
        if folder.exists():
            shutil.rmtree(folder)  # of other sources, or what somebody left half written
        made.rename(folder)
    for old in folder.parent.iterdir():
        if old != folder and old.name.endswith(f"-{seed}"):
            shutil.rmtree(old, ignore_errors=True)  # of another version: nobody asks for it again
    return folder
