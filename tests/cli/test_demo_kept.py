"""Which night `trilens demo` opens on, and where it is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from typer.testing import CliRunner

from trilens.cli import demo_kept
from trilens.cli.main import app
from trilens.model.errors import ConfigError
from trilens.serve import gpu_bindings, web_app
from trilens.serve.rehearsal import bad_night, night_sources
from trilens.serve.rehearsal.kept_night import MANIFEST, Moment, Night, kept
from trilens.settings.caches import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.settings.tree import Settings


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(demo_kept, "shipped_night", lambda: tmp_path / "shipped")
    return tmp_path / "trilens" / "demo"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the nights that were made; they have no tables."""
    seeds: list[int] = []

    def prepare(settings: Settings, seed: int, folder: Path, passed: Callable[[int], None]) -> None:
        assert settings.budgets.limits
        seeds.append(seed)
        folder.mkdir(parents=True)
        (folder / MANIFEST).write_bytes(msgspec.json.encode(night_of(seed)))
        passed(13)

    monkeypatch.setattr(bad_night, "prepare", prepare)
    return seeds


def night_of(seed: int) -> Night:
    return Night(0, seed, (Moment(1, 2),), night_sources.night_key(seed), night_sources.made_by())


def change_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night_sources, "made_by", lambda: "another")


def test_a_script_does_not_wait_for_a_night(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo_kept.night_to_open_on(0) is None
    assert "trilens demo --prepare" in capsys.readouterr().err
    assert not cache.exists()


def test_a_night_is_made_once_and_found_by_its_seed(cache: Path, made: list[int]) -> None:
    for _ in range(2):
        prepared = CliRunner().invoke(app, ["demo", "--prepare", "--seed", "7"])
        assert prepared.exit_code == 0, prepared.output
        (folder,) = cache.iterdir()
        assert str(folder) in prepared.output
    assert made == [7]
    assert demo_kept.night_to_open_on(7) == (folder, night_of(7))
    assert demo_kept.night_to_open_on(8) is None


def test_one_that_comes_with_trilens_is_opened_and_not_made(
    cache: Path, made: list[int], tmp_path: Path
) -> None:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    (shipped / MANIFEST).write_bytes(msgspec.json.encode(night_of(0)))
    assert demo_kept.night_to_open_on(0) == (shipped, night_of(0))
    assert demo_kept.prepare_night(0) == shipped
    assert made == []
    assert demo_kept.night_to_open_on(1) is None, "another seed has another night"
    assert not cache.exists()


@pytest.mark.usefixtures("cache")
def test_one_to_be_shipped_is_put_where_it_is_wanted(made: list[int], tmp_path: Path) -> None:
    wanted = tmp_path / "to-ship" / "night"
    assert demo_kept.prepare_night(0, wanted) == wanted
    (wanted / "of-another-night").touch()
    assert demo_kept.prepare_night(0, wanted) == wanted
    assert [file.name for file in wanted.iterdir()] == [MANIFEST]
    assert [*wanted.parent.iterdir()] == [wanted]
    assert made == [0]


@pytest.mark.usefixtures("cache")
def test_a_folder_of_something_else_is_not_replaced(made: list[int], tmp_path: Path) -> None:
    thesis = tmp_path / "papers" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.touch()
    for taken in (thesis.parent, thesis):
        with pytest.raises(ConfigError, match="something else than a night"):
            demo_kept.prepare_night(0, taken)
    assert made == [], "nobody waited for it"
    thesis.unlink()
    assert demo_kept.prepare_night(0, thesis.parent) == thesis.parent, "an empty one has nothing to lose"


@pytest.mark.usefixtures("cache")
def test_when_sources_have_changed_it_is_still_opened_and_can_be_made_anew(
    made: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_kept.prepare_night(0)
    old = night_of(0)
    demo_kept.say_if_old(old)
    assert "anew" not in capsys.readouterr().err
    change_sources(monkeypatch)
    opened = demo_kept.night_to_open_on(0)
    assert opened is not None
    assert opened.night == old
    demo_kept.say_if_old(opened.night)
    assert "makes it anew" in capsys.readouterr().err
    demo_kept.prepare_night(0)
    assert made == [0, 0]
    again = demo_kept.night_to_open_on(0)
    assert again is not None
    demo_kept.say_if_old(again.night)
    assert "anew" not in capsys.readouterr().err


def test_it_follows_from_all_that_makes_it_and_not_from_what_shows_it() -> None:
    look = (
        "import sys; from trilens.serve.rehearsal import bad_night; of = sys.modules.items();"
        "print(*(one.__file__ for name, one in of if name.startswith('trilens.')), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    loaded = {Path(line) for line in done.stdout.split()}
    assert Path(gpu_bindings.__file__) in loaded
    known = {*night_sources.sources()}
    assert loaded - known == set()
    assert Path(web_app.__file__) not in known


@pytest.mark.usefixtures("cache", "made")
def test_one_of_another_scenario_cannot_be_laid(monkeypatch: pytest.MonkeyPatch) -> None:
    demo_kept.prepare_night(0)
    assert demo_kept.night_to_open_on(0) is not None
    monkeypatch.setattr(night_sources, "SCENARIO", "night")
    assert demo_kept.night_to_open_on(0) is None


@pytest.mark.usefixtures("made")
def test_what_other_versions_kept_goes_and_other_seeds_stay(cache: Path) -> None:
    for name in ("0.0.1-9-abc-7", "0.0.1-9-abc-8"):
        (cache / name).mkdir(parents=True)
    folder = demo_kept.prepare_night(7)
    assert sorted(one.name for one in cache.iterdir()) == sorted([folder.name, "0.0.1-9-abc-8"])
    assert kept(folder) is not None


@pytest.mark.parametrize("more", [["--gpus", "64"], ["--json"], ["--once"], ["--list-faults"]])
def test_to_prepare_goes_alone(cache: Path, more: list[str]) -> None:
    refused = CliRunner().invoke(app, ["demo", "--prepare", *more])
    assert refused.exit_code == 2
    assert not cache.exists()


def test_a_folder_is_for_what_is_prepared(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["demo", "--into", str(tmp_path)]).exit_code == 2


def test_the_cache_is_the_users(tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "trilens"
    assert cache_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "trilens"
    assert cache_folder({}).name.startswith("trilens-cache-")
