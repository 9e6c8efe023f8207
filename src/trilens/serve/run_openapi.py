"""The OpenAPI paths of runs and their lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.lineage.standing import RunState
from trilens.serve.lineage_answers import (
    BatchPage,
    CheckpointContents,
    SightingAnswer,
    SpikesAnswer,
    StepDetail,
)
from trilens.serve.openapi_pieces import list_of, operation, parameter
from trilens.serve.run_answers import CheckpointAnswer, RunDetail, RunPage
from trilens.serve.run_step_answers import CurveAnswer, StepsPage

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

ONE_RUN: Final = "/api/runs/{run}"
RUN_TYPES: Final = (
    RunPage,
    RunDetail,
    CheckpointAnswer,
    CheckpointContents,
    BatchPage,
    StepDetail,
    StepsPage,
    CurveAnswer,
    SpikesAnswer,
    SightingAnswer,
)

_RUN: Final = parameter("run", "path", "The run's id.")
_STEP: Final = parameter("step", "path", "The step's number.")
_LIMIT: Final = parameter("limit", "query", "So many in one answer.")
_NEXT: Final = parameter("next", "query", "What the answer before this one has under `next`.")
_STRETCH: Final = parameter(
    "stretch",
    "query",
    "Of several checkpoints of that step, the one of this stretch; the latest if left out.",
)


def run_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    def get(text: str, parameters: list[Schema], data: Schema) -> Schema:
        return {"get": operation(text, parameters, data, failure)}

    return {
        "/api/runs": get("Runs, the newest first.", [*_RUN_FILTERS, _LIMIT, _NEXT], schemas[RunPage]),
        ONE_RUN: get("One run.", [_RUN], schemas[RunDetail]),
        f"{ONE_RUN}/artifacts/{{artifact}}": {
            "get": {
                "summary": "The bytes of a stack dump or another artifact.",
                "parameters": [_RUN, parameter("artifact", "path", "RANK.ATTEMPT.N, as the run has it.")],
                "responses": {"200": {"description": "The bytes."}},
            }
        },
        f"{ONE_RUN}/checkpoints": get(
            "Its checkpoints, by time.",
            [_RUN, parameter("path", "query", "Only of this path, or of a file in it.")],
            list_of(schemas[CheckpointAnswer]),
        ),
        f"{ONE_RUN}/checkpoints/{{step}}": get(
            "What is inside a checkpoint.", [_RUN, _STEP, _STRETCH], schemas[CheckpointContents]
        ),
        f"{ONE_RUN}/checkpoints/{{step}}/batches": get(
            "The batches that are inside a checkpoint.",
            [_RUN, _STEP, _STRETCH, _LIMIT, _NEXT],
            schemas[BatchPage],
        ),
        f"{ONE_RUN}/steps": get(
            "Records of many steps, in columns.",
            [_RUN, *_STEPS, parameter("rank", "query", "Only of this rank."), _LIMIT, _NEXT],
            schemas[StepsPage],
        ),
        f"{ONE_RUN}/curve": get(
            "A value over steps, in columns: the mean of the ranks, and the worst.",
            [_RUN, parameter("value", "query", "Which; `loss` if left out."), *_STEPS],
            schemas[CurveAnswer],
        ),
        f"{ONE_RUN}/steps/{{step}}": get(
            "A step on all ranks, in every attempt.",
            [_RUN, _STEP, parameter("rank", "query", "Only of this rank."), _LIMIT, _NEXT],
            schemas[StepDetail],
        ),
        f"{ONE_RUN}/spikes": get(
            "Where a value jumped or was not finite, and the batches before.",
            [_RUN, *_SPIKES, _LIMIT],
            schemas[SpikesAnswer],
        ),
        "/api/samples/{sample}": get(
            "The batches that held a sample.",
            [parameter("sample", "path", "Its id, a number or a text."), *_SAMPLE_FILTERS, _LIMIT],
            list_of(schemas[SightingAnswer]),
        ),
    }


_RUN_FILTERS: Final = [
    parameter("named", "query", "Only what is meant by this: an id or its beginning, NAME, EXPERIMENT/NAME."),
    parameter("experiment", "query", "Only of this experiment."),
    {
        **parameter("state", "query", "Only those in this state."),
        "schema": {"type": "string", "enum": [state.value for state in RunState]},
    },
    parameter("from", "query", "Only those that were heard of since, Unix seconds or RFC 3339."),
    parameter("workload", "query", "Only those of this workload: CLUSTER/NAMESPACE/KIND/NAME."),
]
_STEPS: Final = [
    parameter("first", "query", "The first step; 0 if left out."),
    parameter("last", "query", "The last step."),
]
_SPIKES: Final = [
    parameter("value", "query", "The value to look at; `loss` if left out."),
    parameter("window", "query", "So many steps before each are told of; 3 if left out."),
    parameter("first", "query", "The first step to look at."),
    parameter("last", "query", "The last step to look at."),
]
_SAMPLE_FILTERS: Final = [
    parameter("run", "query", "Only in this run."),
    parameter("dataset", "query", "Only of this dataset."),
]
