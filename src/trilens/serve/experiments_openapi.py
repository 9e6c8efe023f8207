"""The OpenAPI paths of experiments and of the trackers that are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.experiment_courses import CoursesAnswer
from trilens.serve.experiments import ExperimentAnswer
from trilens.serve.openapi_pieces import list_of, operation, parameter
from trilens.serve.trackers_api import TrackerAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

EXPERIMENT_TYPES: Final = (ExperimentAnswer, CoursesAnswer, TrackerAnswer)

_FILTERS: Final = [
    parameter("experiment", "query", "Only this one."),
    parameter("metric", "query", "The metric to compare runs by; a validation loss, or a loss, if left out."),
    {
        **parameter("maximize", "query", "Whether more of it is better; by its name if left out."),
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
    parameter("least_gain", "query", "By what share a new best must be better to count; 0.01 if left out."),
    parameter("limit", "query", "Of the latest so many runs of each kind; 1,000 if left out, and at most."),
]


def experiment_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    every, followed = list_of(schemas[ExperimentAnswer]), list_of(schemas[TrackerAnswer])
    text = "Experiments with their runs, from the SDK and from every tracker alike."
    return {
        "/api/experiments": {"get": operation(text, _FILTERS, every, failure)},
        "/api/experiments/courses": {
            "get": operation("How a metric went in each run.", _FILTERS, schemas[CoursesAnswer], failure)
        },
        "/api/trackers": {"get": operation("The trackers that are followed.", [], followed, failure)},
    }
