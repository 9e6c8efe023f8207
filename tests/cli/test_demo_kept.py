"""Which night `trilens demo` opens on, and where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from trilens.cli import demo_kept
from trilens.cli.main import app
from trilens.serve.rehearsal import bad_night
from trilens.serve.rehearsal.kept_night import MANIFEST, Night, kept
from trilens.settings.caches import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.settings.tree import Settings


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "trilens" / "demo"


@pytest.fixture
def quickly_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A night without tables."""

    def prepare(
        settings: Settings, cluster: str, seed: int, folder: Path, passed: Callable[[int], None]
    ) -> None:
        del settings, cluster
        folder.mkdir(parents=True)
        (folder / MANIFEST).write_text(
            f'{{"begin_ms":0,"end_ms":1,"written_us":{seed},"told":{{}}}}', "utf-8"
        )
        passed(12)

    monkeypatch.setattr(bad_night, "prepare", prepare)


def test_a_script_does_not_wait_for_a_night(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo_kept.night_to_open_on(0) is None
    assert "trilens demo --prepare" in capsys.readouterr().err
    assert not cache.exists()


@pytest.mark.usefixtures("quickly_made")
def test_a_night_is_made_once_and_found_by_its_seed(cache: Path) -> None:
    made = CliRunner().invoke(app, ["demo", "--prepare", "--seed", "7"])
    assert made.exit_code == 0, made.output
    (folder,) = cache.iterdir()
    assert str(folder) in made.output
    night = demo_kept.night_to_open_on(7)
    assert night == (folder, Night(0, 1, 7, {}))
    assert demo_kept.night_to_open_on(8) is None


@pytest.mark.usefixtures("quickly_made")
def test_what_other_versions_kept_goes_and_other_seeds_stay(cache: Path) -> None:
    for name in ("0.0.1-9-abc-7", "0.0.1-9-abc-8"):
        (cache / name).mkdir(parents=True)
    folder = demo_kept.prepare_night(7)
    assert sorted(one.name for one in cache.iterdir()) == sorted([folder.name, "0.0.1-9-abc-8"])
    assert demo_kept.prepare_night(7) == folder, "it can be made anew"
    assert kept(folder) is not None


@pytest.mark.parametrize("more", [["--gpus", "64"], ["--json"], ["--once"], ["--list-faults"]])
def test_to_prepare_goes_alone(cache: Path, more: list[str]) -> None:
    refused = CliRunner().invoke(app, ["demo", "--prepare", *more])
    assert refused.exit_code == 2
    assert not cache.exists()


def test_the_cache_is_the_users(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "trilens"
    assert cache_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "trilens"
    assert cache_folder({}).name.startswith("trilens-cache-")
