"""What all boards have: their variables, their ways to each other and into the web app, and their JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    Row,
    TextBoxVariable,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from tools.dashboards.panels import SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

TAG: Final = "trilens"
_ALL: Final = VariableOption(selected=True, text="All", value="$__all")
# A scrape need not have the label: what has none is part of "All".
_ALL_VALUE: Final = ".*"


class Chosen(NamedTuple):
    """A variable whose values a query finds: those of `label` on `series`."""

    name: str
    label: str
    series: str
    about: str

    def built(self) -> QueryVariable:
        return (
            QueryVariable(self.name)
            .label(self.name)
            .description(self.about)
            .datasource(SOURCE)
            .query({"query": f"label_values({self.series}, {self.label})", "refId": self.name})
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC)
            .include_all(True)
            .all_value(_ALL_VALUE)
            .multi(True)
            .current(_ALL)
        )


class Section(NamedTuple):
    title: str
    panels: Sequence[Builder[Panel]]


class Board(NamedTuple):
    slug: str
    title: str
    about: str
    variables: Sequence[Chosen]
    sections: Sequence[Section]
    page: str = "/"  # of the web app
    since: str = "now-6h"

    @property
    def file_name(self) -> str:
        return f"{self.slug}.json"

    def text(self) -> str:
        tree: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(self._dashboard().build()))
        panels = [panel for panel in tree["panels"] if panel["type"] != "row"]
        for number, panel in enumerate(tree["panels"], start=1):
            panel["id"] = number  # or Grafana gives others at every import, and links to panels break
        assert len({panel["title"] for panel in panels}) == len(panels)
        return json.dumps(tree, indent=2, sort_keys=True) + "\n"

    def _dashboard(self) -> Dashboard:
        board = (
            Dashboard(f"Trilens / {self.title}")
            .uid(f"trilens-{self.slug}")
            .description(self.about)
            .tags([TAG])
            .refresh("1m")
            .time(self.since, "now")
            .timezone("browser")
            .tooltip(DashboardCursorSync.CROSSHAIR)
            .editable()
            .link(_others())
            .link(link(f"Trilens: {self.title}", f"${{trilens}}{self.page}"))
            .with_variable(DatasourceVariable("datasource").label("data source").type("prometheus"))
        )
        for variable in self.variables:
            board = board.with_variable(variable.built())
        address = TextBoxVariable("trilens").label("Trilens at").default_value("http://localhost:9333")
        board = board.with_variable(address.description("Where links into the web app lead."))
        for section in self.sections:
            board = board.with_row(Row(section.title))
            for panel in section.panels:
                board = board.with_panel(panel)
        return board


def link(title: str, url: str) -> DashboardLink:
    return DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True)


def to_board(slug: str, **variables: str) -> DashboardLink:
    """To another board, with these variables; values are Grafana's, as `${__data.fields.team}`."""
    chosen = "&".join(f"var-{name}={value}" for name, value in variables.items())
    return link(
        f"Board: {slug}", f"/d/trilens-{slug}?${{__url_time_range}}&${{datasource:queryparam}}&{chosen}"
    )


def field(name: str) -> str:
    """Of the row that was clicked."""
    return f"${{__data.fields.{name}}}"


def _others() -> DashboardLink:
    return (
        DashboardLink("Trilens boards")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .keep_time(True)
        .include_vars(True)
    )


CLUSTER: Final = Chosen("cluster", "cluster", "trilens_workload_phase", "As Trilens knows the cluster.")
