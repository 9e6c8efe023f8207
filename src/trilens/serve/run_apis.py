"""What is asked of runs, of what went into their models, and of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.serve.routes import route
from trilens.serve.run_openapi import ONE_RUN

if TYPE_CHECKING:
    from trilens.serve.experiments import ExperimentsApi
    from trilens.serve.lineage import LineageApi
    from trilens.serve.routes import GuardedRoute
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

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/runs", self.runs.every, narrowed=True),
            route(ONE_RUN, self.runs.one, narrowed=True),
            route(f"{ONE_RUN}/artifacts/{{artifact}}", self.runs.artifact, narrowed=True),
            route(f"{ONE_RUN}/checkpoints", self.runs.checkpoints, narrowed=True),
            route(f"{ONE_RUN}/checkpoints/{{step}}", self.lineage.checkpoint, narrowed=True),
            route(f"{ONE_RUN}/checkpoints/{{step}}/batches", self.lineage.batches, narrowed=True),
            route(f"{ONE_RUN}/steps", self.steps.steps, narrowed=True),
            route(f"{ONE_RUN}/steps/{{step}}", self.lineage.step, narrowed=True),
            route(f"{ONE_RUN}/curve", self.steps.curve, narrowed=True),
            route(f"{ONE_RUN}/spikes", self.lineage.spikes, narrowed=True),
            route(f"{ONE_RUN}/traces", self.traces.traces, narrowed=True),
            route("/api/samples/{sample:path}", self.lineage.sample, narrowed=True),
            route("/api/experiments", self.experiments.every, narrowed=True),
            route("/api/experiments/courses", self.experiments.courses, narrowed=True),
            route("/api/trackers", self.trackers.every),
        ]
