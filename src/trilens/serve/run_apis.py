"""What is asked of runs, of what went into their models, and of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.serve.routes import route
from trilens.serve.run_openapi import ONE_RUN

if TYPE_CHECKING:
    from starlette.routing import Route

    from trilens.serve.experiments import ExperimentsApi
    from trilens.serve.lineage import LineageApi
    from trilens.serve.run_steps import RunStepsApi
    from trilens.serve.run_traces import RunTracesApi
    from trilens.serve.runs import RunsApi
    from trilens.serve.trackers_api import TrackersApi


@dataclass(frozen=True, slots=True)
class RunApis:
    runs: RunsApi
    lineage: LineageApi
    steps: RunStepsApi
    traces: RunTracesApi
    experiments: ExperimentsApi
    trackers: TrackersApi

    def routes(self) -> list[Route]:
        return [
            route("/api/runs", self.runs.every),
            route(ONE_RUN, self.runs.one),
            route(f"{ONE_RUN}/artifacts/{{artifact}}", self.runs.artifact),
            route(f"{ONE_RUN}/checkpoints", self.runs.checkpoints),
            route(f"{ONE_RUN}/checkpoints/{{step}}", self.lineage.checkpoint),
            route(f"{ONE_RUN}/checkpoints/{{step}}/batches", self.lineage.batches),
            route(f"{ONE_RUN}/steps", self.steps.steps),
            route(f"{ONE_RUN}/steps/{{step}}", self.lineage.step),
            route(f"{ONE_RUN}/curve", self.steps.curve),
            route(f"{ONE_RUN}/spikes", self.lineage.spikes),
            route(f"{ONE_RUN}/traces", self.traces.traces),
            route("/api/samples/{sample:path}", self.lineage.sample),
            route("/api/experiments", self.experiments.every),
            route("/api/experiments/courses", self.experiments.courses),
            route("/api/trackers", self.trackers.every),
        ]
