"""The OpenAPI paths of the page of one workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.openapi_pieces import operation, parameter
from trilens.serve.pages import rank_heat, timeline
from trilens.serve.pages.rank_heat_answers import RankHeatAnswer
from trilens.serve.pages.timeline_answers import TimelineAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

TIMELINE_TYPES: Final[tuple[type, ...]] = (TimelineAnswer, RankHeatAnswer)

_WHOSE: Final = [
    parameter("cluster", "path", "As it is called in kubernetes.clusters."),
    parameter("namespace", "path", "Its namespace."),
    parameter("kind", "path", "Its kind; `Kind.group` where two groups have one of that kind and name."),
    parameter("name", "path", "Its name."),
    parameter("from", "query", "The first moment; 12 hours before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
]
_OF_GRID: Final = [
    parameter("points", "query", "At most so many slots, 10 to 600; 300 if left out."),
    parameter("rank", "query", "Also this rank's own figures."),
]
_OF_HEAT: Final = [
    parameter("columns", "query", "At most so many columns of time; 200 if left out, and at most."),
    parameter("rows", "query", "At most so many ranks; 512 if left out, 4096 at most."),
    {
        **parameter("measure", "query", "What is compared; own where the program tells of its waiting."),
        "schema": {"type": "string", "enum": ["own", "step"]},
    },
]


def timeline_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    def get(text: str, parameters: list[Schema], data: type) -> Schema:
        return {"get": operation(text, parameters, schemas[data], failure)}

    return {
        timeline.PATH: get("A workload's layers over time.", [*_WHOSE, *_OF_GRID], TimelineAnswer),
        rank_heat.PATH: get("Its ranks' step times over time.", [*_WHOSE, *_OF_HEAT], RankHeatAnswer),
    }
