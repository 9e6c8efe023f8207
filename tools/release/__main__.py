"""`python -m tools.release`: what docs/releasing.md has step by step."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tools.release import page as dependencies
from tools.release.dependencies import ROOT, in_web_app, shipped
from tools.release.licences import not_allowed
from tools.release.notes import UNRELEASED, cut, notes
from tools.release.sbom import sbom
from tools.release.wheel import ONE, OTHER, built, differences, digest, files_of_a_wheel
from trilens import __version__

_CHANGELOG = ROOT / "CHANGELOG.md"
_EPOCH_S = 1_577_836_800  # 2020: of checks; a release has the time of its commit

app = typer.Typer(add_completion=False, help="What a release is checked for, and what goes with it.")


@app.command()
def check() -> None:
    """Licences, the list of dependencies, the SBOM, the changelog, the wheel: exit code 1 if one is wrong."""
    problems = [f"not allowed: {one}" for one in not_allowed([*shipped(), *in_web_app()])]
    if dependencies.FILE.read_text(encoding="utf-8") != dependencies.page():
        problems.append("docs/dependencies.md is old: python -m tools.release page")
    changelog = _CHANGELOG.read_text(encoding="utf-8")
    try:
        sbom(_EPOCH_S)
        notes(changelog, UNRELEASED if "dev" in __version__ else __version__)
    except (LookupError, ValueError) as e:
        problems.append(str(e))
    try:
        told, made = _compared()
    except RuntimeError as e:
        problems.append(f"no wheel: {e}")
    else:
        problems += [f"the wheel differs: {one}" for one in told]
        typer.echo(f"wheel: {made}")
    for problem in problems:
        typer.echo(problem, err=True)
    typer.echo(f"{len(shipped())} packages from PyPI, {len(in_web_app())} from npm in the web app")
    raise typer.Exit(1 if problems else 0)


def _compared() -> tuple[list[str], str]:
    """What differs between two builds of the same files, and the digest of the first."""
    files = files_of_a_wheel()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first = built(files, Path(one), ONE, _EPOCH_S)
        return differences(first, built(files, Path(other), OTHER, _EPOCH_S)), digest(first)


@app.command("page")
def write_page() -> None:
    """Write docs/dependencies.md anew."""
    dependencies.FILE.write_text(dependencies.page(), encoding="utf-8")


@app.command("sbom")
def write_sbom(
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    made: Annotated[int, typer.Option(metavar="SECONDS", help="The time of the release, since 1970.")],
) -> None:
    """Write the bill of materials, in CycloneDX."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(sbom(made), encoding="utf-8")


@app.command("notes")
def write_notes(version: str) -> None:
    """The section of a version in CHANGELOG.md."""
    try:
        found = notes(_CHANGELOG.read_text(encoding="utf-8"), version)
    except LookupError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from e
    typer.echo(found, nl=False)


@app.command("cut")
def cut_version(version: str) -> None:
    """What is unreleased in CHANGELOG.md becomes this version, of today."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    try:
        changelog = cut(_CHANGELOG.read_text(encoding="utf-8"), version, day)
    except LookupError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(1) from e
    _CHANGELOG.write_text(changelog, encoding="utf-8")
    typer.echo(f"{UNRELEASED} is {version} of {day} now: {_CHANGELOG.name}")


app()
