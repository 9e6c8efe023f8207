"""What a dashboard asks, as Grafana would ask it: its variables filled in by their own queries."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tools.dashboards.boards import BOARDS, FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Values = Callable[[str, str], list[str]]  # of a selector, those of a label

_LABEL_VALUES: Final = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_GRAFANA: Final = {"__rate_interval": "5m"}  # as Grafana reckons it for a scrape every minute or so
_VARIABLE: Final = re.compile(r"\$(\w+)")


class Asked(NamedTuple):
    board: str
    panel: str
    number: int
    expr: str

    def __str__(self) -> str:
        return f"{self.board}: {self.panel} ({self.number})"


def boards() -> dict[str, dict[str, Any]]:
    """As they are in the repository."""
    found = {}
    for board in BOARDS:
        found[board.slug] = json.loads((FOLDER / board.file_name).read_text(encoding="utf-8"))
    return found


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def asked() -> Iterator[Asked]:
    for slug, board in boards().items():
        for panel in panels(board):
            for number, target in enumerate(panel["targets"]):
                yield Asked(slug, panel["title"], number, target["expr"])


def everything(_selector: str, _label: str) -> list[str]:
    """The choice that a board opens with."""
    return [".*"]


def chosen(board: dict[str, Any], values: Values) -> dict[str, str]:
    """The variables in their order, the first value of each: later ones ask by those before them."""
    found: dict[str, str] = dict(_GRAFANA)
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        match = _LABEL_VALUES.fullmatch(variable["query"]["query"])
        assert match is not None, variable
        options = values(filled(match["series"], found), match["label"])
        assert options, f"{variable['name']} has no values: {match[0]}"
        found[variable["name"]] = options[0]
    return found


def filled(expr: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda name: variables[name[1]], expr)
