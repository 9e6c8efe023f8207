"""The same files make the same wheel, whoever builds it, where and when."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Final

import pytest
from tools.release.dependencies import ROOT
from tools.release.wheel import MADE, ONE, OTHER, built, differences

if TYPE_CHECKING:
    from pathlib import Path

EPOCH_S: Final = 1_600_000_000
# Enough for a wheel; the whole tree is for `make release-check`.
KEPT: Final = ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py", "tools/web")
FOLDERS: Final = ("src/trilens/rules", "src/trilens/settings")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A part of the sources, with what is made before a wheel in small."""
    root = tmp_path / "tree"
    sources = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.[py]*") if file.is_file()]
    names = [*KEPT, "src/trilens/__init__.py", *(str(file.relative_to(ROOT)) for file in sources)]
    for name in names:
        there = root / name
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes((ROOT / name).read_bytes())
    for folder, file in zip(MADE, ("index.html", "night.json"), strict=True):
        (root / folder).mkdir(parents=True)
        (root / folder / file).write_text(f"{file} was made\n")
    return root


def files(tree: Path) -> list[Path]:
    return sorted(file.relative_to(tree) for file in tree.rglob("*") if file.is_file())


def test_place_time_zone_and_umask_leave_no_trace(tree: Path, tmp_path: Path) -> None:
    one = built(files(tree), tmp_path / "here", ONE, EPOCH_S, tree)
    other = built(list(reversed(files(tree))), tmp_path / "elsewhere" / "deeper", OTHER, EPOCH_S, tree)
    assert differences(one, other) == []
    with zipfile.ZipFile(one) as archive:
        names = set(archive.namelist())
        assert {info.date_time for info in archive.infolist()} == {(2020, 9, 13, 12, 26, 40)}
    assert {
        "trilens/serve/web/dist/index.html",
        "trilens/serve/rehearsal/night/night.json",
        "trilens/rules/alerts-trilens.yml",
        "trilens/rules/elsewhere/watchdog.yml",
    } <= names


def test_another_time_of_release_is_seen(tree: Path, tmp_path: Path) -> None:
    """Or the comparison would find nothing, whatever there was."""
    one = built(files(tree), tmp_path / "here", ONE, EPOCH_S, tree)
    other = built(files(tree), tmp_path / "elsewhere", ONE, EPOCH_S + 60, tree)
    assert any("2020-9-13" in line for line in differences(one, other))


def test_a_wheel_without_the_web_app_is_not_made(tree: Path, tmp_path: Path) -> None:
    left = [file for file in files(tree) if file.name != "index.html"]
    with pytest.raises(RuntimeError, match="the web app is not built"):
        built(left, tmp_path / "here", ONE, EPOCH_S, tree)
