"""The OpenAPI paths of the pages Workloads and Fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.openapi_pieces import operation, parameter
from trilens.serve.pages import fleet_map, gpu_life, workload_table
from trilens.serve.pages.fleet_answers import FleetAnswer
from trilens.serve.pages.gpu_life_answers import GpuLife
from trilens.serve.pages.workload_table_answers import WorkloadTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

FLEET_TYPES: Final[tuple[type, ...]] = (WorkloadTable, FleetAnswer, GpuLife)

_STATE: Final = {
    **parameter("state", "query", "`all`: also those that went within a day; running if left out."),
    "schema": {"type": "string", "enum": [*workload_table.STATES]},
}
_LIFE: Final = [
    parameter("uuid", "path", "Of the GPU."),
    parameter("from", "query", "The first moment; 12 hours before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
]


def fleet_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    def get(text: str, parameters: list[Schema], data: type) -> Schema:
        return {"get": operation(text, parameters, schemas[data], failure)}

    return {
        workload_table.PATH: get("All workloads now, by columns.", [_STATE], WorkloadTable),
        fleet_map.PATH: get("All nodes and GPUs now, by columns.", [], FleetAnswer),
        gpu_life.PATH: get("One GPU over a span of time.", _LIFE, GpuLife),
    }
