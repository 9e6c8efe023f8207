"""The Grafana dashboards: made by the generator, whole, and readable by Prometheus."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from dashboard_queries import asked, boards, chosen, everything, filled, panels
from tools.dashboards.boards import BOARDS, FOLDER

from servers import require_server

if TYPE_CHECKING:
    from pathlib import Path

    from tools.dashboards.board import Board

_WIDTH = 24  # of Grafana's grid


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.slug)
def test_a_file_is_what_the_generator_writes(board: Board) -> None:
    """After a change: python -m tools.dashboards."""
    assert (FOLDER / board.file_name).read_text(encoding="utf-8") == board.text()


def test_there_are_no_others() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {board.file_name for board in BOARDS}


@pytest.mark.parametrize("slug", boards())
def test_a_panel_says_what_it_shows_in_which_unit(slug: str) -> None:
    for panel in panels(boards()[slug]):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        lines = panel["targets"]
        assert all(one["refId"] for one in lines)
        assert panel["type"] != "timeseries" or all(one["legendFormat"] for one in lines), panel["title"]


@pytest.mark.parametrize("slug", boards())
def test_a_figure_is_red_for_no_reason_but_its_own(slug: str) -> None:
    """Where a board has no thresholds Grafana has: red from 80 on, be it GPUs or watts."""
    for panel in panels(boards()[slug]):
        if panel["type"] in ("stat", "bargauge"):
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            assert steps[0]["value"] is None, panel["title"]
            assert len(steps) in (1, 3), panel["title"]


@pytest.mark.parametrize("slug", boards())
def test_panels_do_not_lie_upon_each_other(slug: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in boards()[slug]["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= _WIDTH
        taken |= cells


@pytest.mark.parametrize("slug", boards())
def test_boards_lead_to_each_other_and_into_the_web_app(slug: str) -> None:
    board = boards()[slug]
    known = {f"/d/trilens-{other}" for other in boards()}
    others, app = board["links"]
    assert (others["type"], others["tags"]) == ("dashboards", board["tags"])
    assert app["url"].startswith("${trilens}/")
    names = {variable["name"] for variable in board["templating"]["list"]}
    assert {"datasource", "trilens"} <= names
    for url in _urls(board["panels"]):
        assert url.startswith("${trilens}/") or url.partition("?")[0] in known, url


def _urls(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        own = [tree["url"]] if "url" in tree else []
        return own + [url for part in tree.values() for url in _urls(part)]
    return [url for part in tree for url in _urls(part)] if isinstance(tree, list) else []


def test_a_link_sets_variables_that_the_other_board_has() -> None:
    for board in boards().values():
        for url in _urls(board["panels"]):
            if url.startswith("/d/trilens-"):
                other = boards()[url.removeprefix("/d/trilens-").partition("?")[0]]
                names = {variable["name"] for variable in other["templating"]["list"]}
                assert set(re.findall(r"var-(\w+)=", url)) <= names


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    every = {slug: chosen(board, everything) for slug, board in boards().items()}
    rules = [
        {"record": f"query_{number}", "expr": filled(one.expr, every[one.board])}
        for number, one in enumerate(asked())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run(
        [require_server("promtool"), "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
