"""Panels in one look: what a board says of a panel is what it asks, its unit, and when it is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import DashboardLink, ThresholdsConfig
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_STAT_SPAN, _STAT_HEIGHT = 4, 4
_CHART_SPAN, _CHART_HEIGHT = 12, 8
_HIDDEN: Final = ("Time", "__name__", "instance", "job")


class Line(NamedTuple):
    """One query of a chart, and how its series are called."""

    expr: str
    legend: str = ""


class Levels(NamedTuple):
    """From which value on it is worth a look, and from which it is bad; little is, where `bad` is less."""

    warn: float
    bad: float

    def config(self) -> ThresholdsConfig:
        if self.warn <= self.bad:
            steps = [(None, "green"), (self.warn, "orange"), (self.bad, "red")]
        else:
            steps = [(None, "red"), (self.bad, "orange"), (self.warn, "green")]
        return _coloured(steps)


def _coloured(steps: Sequence[tuple[float | None, str]]) -> ThresholdsConfig:
    found = [Threshold(value=value, color=color) for value, color in steps]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def _plain() -> ThresholdsConfig:
    """What is neither good nor bad. Without thresholds Grafana has its own: red from 80 on."""
    return _coloured([(None, "blue")])


def over_gpu_time(ratio: str, by: str, selector: str) -> str:
    """The mean of ratios of the last day, each with the GPU time that it is of."""
    time = f"sum by ({by}) (sum_over_time(trilens_cost_gpus{{{selector}}}[1d:5m]))"
    return f"sum({ratio}{{{selector}}} * on ({by}) {time}) / sum({time})"


def number(
    title: str, expr: str, unit: str, about: str, levels: Levels | None = None, decimals: int | None = None
) -> stat.Panel:
    """One figure of now, with its course behind it."""
    panel = (
        stat.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .span(_STAT_SPAN)
        .height(_STAT_HEIGHT)
        .graph_mode(BigValueGraphMode.AREA)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(levels.config() if levels is not None else _plain())
        .with_target(_target(Line(expr), "A"))
    )
    return panel.decimals(decimals) if decimals is not None else panel


def chart(
    title: str,
    lines: Sequence[Line],
    unit: str,
    about: str,
    *,
    levels: Levels | None = None,
    stacked: bool = False,
    most: float | None = None,
    links: Sequence[DashboardLink] = (),
) -> timeseries.Panel:
    """Courses over time; `most` is the end of the axis where there is one, as 1 for a ratio."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .span(_CHART_SPAN)
        .height(_CHART_HEIGHT)
        .min(0)
        .line_width(1)
        .fill_opacity(70 if stacked else 5)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .calcs(["lastNotNull", "max"])
            .sort_by("Last *")
            .sort_desc(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if most is not None:
        panel = panel.max(most)
    if levels is not None:
        style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(levels.config()).thresholds_style(style)
    if links:
        panel = panel.data_links(list(links))
    for line, name in zip(lines, "ABCDEFG", strict=False):
        panel = panel.with_target(_target(line, name))
    return panel


def ranking(title: str, expr: str, legend: str, unit: str, about: str) -> bargauge.Panel:
    """The most of something now, one bar each."""
    return (
        bargauge.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .unit(unit)
        .span(_CHART_SPAN)
        .height(_CHART_HEIGHT)
        .min(0)
        .orientation(VizOrientation.HORIZONTAL)
        .thresholds(_plain())
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(Line(expr, legend), "A", instant=True))
    )


def listing(
    title: str, expr: str, about: str, links: Mapping[str, DashboardLink], *, value: str | None = None
) -> table.Panel:
    """Series of now as rows; `value` is the heading of their figure, which is left out without one."""
    hidden = [*_HIDDEN, *(() if value is not None else ("Value",))]
    options = {
        "excludeByName": dict.fromkeys(hidden, True),
        "renameByName": {"Value": value} if value is not None else {},
    }
    panel = (
        table.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .span(_CHART_SPAN)
        .height(_CHART_HEIGHT)
        .with_target(_target(Line(expr), "A", instant=True))
        .with_transformation(DataTransformerConfig(id_val="organize", options=options))
    )
    for column, link in links.items():
        panel = panel.override_by_name(column, [DynamicConfigValue("links", [link.build()])])
    return panel


def _target(line: Line, name: str, *, instant: bool = False) -> prometheus.Dataquery:
    query = prometheus.Dataquery().datasource(SOURCE).expr(line.expr).ref_id(name)
    if line.legend:
        query = query.legend_format(line.legend)
    if instant:
        return query.instant().format(
            PromQueryFormat.TABLE if not line.legend else PromQueryFormat.TIME_SERIES
        )
    return query.range()
