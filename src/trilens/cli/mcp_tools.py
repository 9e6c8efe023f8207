"""What an assistant may ask: each question is a tool that reads the server's API, and changes nothing.

Not with `from __future__ import annotations`: the arguments' types and texts are read when a tool is made.
"""

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

from pydantic import Field

from trilens.cli.client import Client
from trilens.cli.cost import cost_params
from trilens.cli.lineage import checkpoint_meant
from trilens.cli.mcp_arguments import (
    TIME,
    AlsoOver,
    At,
    OnlyCluster,
    OnlyNamespace,
    OnlyNode,
    OnlySeverity,
    OnlyWorkload,
    Since,
    Workload,
)
from trilens.cli.naming import path_of
from trilens.cli.query import query_params
from trilens.cli.run_naming import run_meant
from trilens.cli.show import told_of
from trilens.cli.times import at_parameter, read_moment
from trilens.model.errors import RequestError

Answer: TypeAlias = dict[str, Any]

_POINTS = 60  # of a range, unless asked for: enough to see a shape
_NAMES = 200  # metric names in one answer


class Tools:
    """Each public method is a tool; its docstring is what an assistant chooses by."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def workloads(
        self,
        namespace: OnlyNamespace = None,
        cluster: OnlyCluster = None,
        phase: Annotated[str | None, Field(description="Only in this phase: queued, running, ...")] = None,
        since: Since = None,
        at: At = None,
    ) -> Answer:
        """List jobs and services: phase, members, attempt, doubts. Start here to find a name."""
        now_s = time.time()
        params = _given(namespace=namespace, cluster=cluster, phase=phase) | at_parameter(at, now_s)
        if since is not None:
            params["from"] = _seconds(since, float(params.get("at", now_s)))
        return _told(self._client.get("/api/workloads", params))

    def show(self, workload: Workload, at: At = None) -> Answer:
        """All that is known of one workload: pods, ranks, nodes, GPUs and their use, phases, runs, events."""
        params = at_parameter(at, time.time())
        told = told_of(self._client, path_of(self._client, workload, None, params), params)
        return {
            **_warned(told.warnings),
            "data": {**told.workload, "programs": told.programs, "runs": told.runs, "events": told.events},
        }

    def why(
        self,
        subject: Annotated[
            str,
            Field(
                description="A workload, pod or node (NAME, NAMESPACE/NAME, pod/NAME or node/NAME), or "
                "the id of an incident"
            ),
        ],
        since: Since = None,
    ) -> Answer:
        """Why a workload, pod or node is slow, pending, hung, failed or unseen: the cause, how sure that is,
        the evidence, what to do, and what is missing to be surer. A verdict that cannot tell is a guess."""
        params = {"subject": subject} | ({} if since is None else {"from": _seconds(since, time.time())})
        return _told(self._client.get("/api/why", params))

    def findings(
        self,
        workload: OnlyWorkload = None,
        node: OnlyNode = None,
        severity: OnlySeverity = None,
        also_over: AlsoOver = False,
    ) -> Answer:
        """What detectors find wrong now (stalls, hangs, crashes, GPU faults, waste), with what to do."""
        params = _given(workload=workload, node=node, severity=severity, all="true" if also_over else None)
        return _told(self._client.get("/api/findings", params))

    def incidents(
        self,
        incident: Annotated[str | None, Field(description="The id of one, for its whole timeline")] = None,
        workload: OnlyWorkload = None,
        node: OnlyNode = None,
        team: Annotated[str | None, Field(description="Only of this team")] = None,
        severity: OnlySeverity = None,
        also_over: AlsoOver = False,
        since: Since = None,
    ) -> Answer:
        """What is wrong, one for each cause with its symptoms, what it costs and who has it. Ask this first
        when somebody asks what is going on."""
        if incident is not None:
            return _told(self._client.get(f"/api/incidents/{quote(incident, safe='')}"))
        params = _given(
            workload=workload,
            node=node,
            team=team,
            severity=severity,
            all="true" if also_over else None,
        ) | ({} if since is None else {"from": _seconds(since, time.time())})
        return _told(self._client.get("/api/incidents", params))

    def gpus(
        self,
        namespace: OnlyNamespace = None,
        cluster: OnlyCluster = None,
        node: OnlyNode = None,
        workload: OnlyWorkload = None,
        lost: Annotated[bool, Field(description="Only those that should be there and do not report")] = False,
        at: At = None,
    ) -> Answer:
        """List GPUs: model, node, state, and which workload, pod and rank holds each."""
        params = _given(
            namespace=namespace,
            cluster=cluster,
            node=node,
            workload=workload,
            lost="true" if lost else None,
        )
        return _told(self._client.get("/api/gpus", params | at_parameter(at, time.time())))

    def runs(
        self,
        run: Annotated[
            str | None,
            Field(description="One run in full: its id or its beginning, name, or EXPERIMENT/NAME"),
        ] = None,
        experiment: Annotated[str | None, Field(description="Only of this experiment")] = None,
        state: Annotated[
            Literal["running", "stalled", "finished", "failed", "lost"] | None,
            Field(description="Only in this state"),
        ] = None,
        since: Since = None,
        limit: Annotated[int, Field(ge=1, le=1000, description="The newest so many")] = 50,
    ) -> Answer:
        """Training runs as the programs tell them: state, step, loss, speed, time left; of one run also its
        ranks, attempts, checkpoints, validations, notes and cost."""
        if run is not None:
            return _told(self._client.get(f"/api/runs/{quote(run_meant(self._client, run))}"))
        params = _given(experiment=experiment, state=state) | {"limit": str(limit)}
        if since is not None:
            params["from"] = _seconds(since, time.time())
        return _told(self._client.get("/api/runs", params))

    def lineage(
        self,
        run: Annotated[
            str | None,
            Field(
                description="A run's id or its beginning, name, or EXPERIMENT/NAME; needed but for a sample"
            ),
        ] = None,
        step: Annotated[int | None, Field(ge=0, description="Samples, GPUs and values at this step")] = None,
        checkpoint: Annotated[
            str | None, Field(description="What is inside it: its step, or its path")
        ] = None,
        sample: Annotated[str | None, Field(description="Which steps of which runs saw this sample")] = None,
        spikes: Annotated[bool, Field(description="Where a value jumped, and the batches before")] = False,
        value: Annotated[str, Field(description="Of spikes, which value")] = "loss",
    ) -> Answer:
        """What went into a model: the data of a step or a checkpoint, who saw a sample, what came before a
        spike of the loss. Ask exactly one of step, checkpoint, sample and spikes."""
        if [step is not None, checkpoint is not None, sample is not None, spikes].count(True) != 1:
            raise RequestError("ask one question", hint="give one of step, checkpoint, sample and spikes")
        client = self._client
        if run is None and sample is None:
            raise RequestError("name a run", hint="runs lists them; only a sample is looked for in all runs")
        run_id = run_meant(client, run) if run is not None else None
        path = f"/api/runs/{quote(run_id or '')}"
        if sample is not None:
            return _told(client.get(f"/api/samples/{quote(sample, safe='')}", _given(run=run_id)))
        if spikes:
            return _told(client.get(f"{path}/spikes", {"value": value}))
        if step is not None:
            return _told(client.get(f"{path}/steps/{step}"))
        assert checkpoint is not None
        return _told(client.get(*checkpoint_meant(client, path, checkpoint)))

    def cost(
        self,
        question: Annotated[
            Literal["spent", "wasted", "now"],
            Field(
                description="spent: by whom and on what; wasted: what was spent for nothing, why, and what "
                "to do; now: the burn rate, the month's forecast and budgets"
            ),
        ] = "spent",
        by: Annotated[
            list[str] | None,
            Field(
                max_length=4,
                description="Up to four of team, namespace, experiment, workload, run, node, gpu-model, "
                "bucket, cost-centre, queue, cluster, gpu, purchase, region, cause, basis, hour, day",
            ),
        ] = None,
        since: Annotated[
            str | None,
            Field(description=f"{TIME}, or today, yesterday, month (default: 24 hours before `to`)"),
        ] = None,
        to: Annotated[str | None, Field(description="The end, likewise (default: now)")] = None,
        where: Annotated[
            list[str] | None, Field(description="Only of these: DIMENSION=VALUE, such as team=vision")
        ] = None,
    ) -> Answer:
        """What GPUs cost, by team, workload or the like; what was wasted and why; how fast money goes."""
        if question == "now" and (since is not None or to is not None):
            raise RequestError(
                "now has no span of time", hint="leave out since and to, or ask what was spent"
            )
        if question == "wasted" and by:
            raise RequestError("what was wasted is told by cause", hint="leave out by, or ask what was spent")
        params = cost_params(since, to, where, None)
        if question == "wasted":
            return _told(self._client.get("/api/cost/why", params))
        path = "/api/cost/now" if question == "now" else "/api/cost"
        return _told(self._client.get(path, params | {"by": by or []}))

    def query(
        self,
        expression: Annotated[str, Field(description="PromQL, such as avg by (node) (DCGM_FI_DEV_GPU_TEMP)")],
        at: At = None,
        start: Annotated[str | None, Field(description=f"Ask about a range that begins here: {TIME}")] = None,
        end: Annotated[str | None, Field(description="The end of the range (default now)")] = None,
        step: Annotated[
            str | None,
            Field(description=f"Distance of two points, such as 15s (default: about {_POINTS} points)"),
        ] = None,
    ) -> Answer:
        """Evaluate PromQL over all samples, at a moment or over a range. `metrics` finds names. Aggregate in
        the query (topk, avg by): an answer of thousands of series is cut."""
        params = query_params(expression, at, start, end, step, points=_POINTS)
        path = "/api/v1/query_range" if "start" in params else "/api/v1/query"
        return _told(self._client.post(path, form=params))

    def metrics(
        self,
        contains: Annotated[str, Field(description="A part of the name, such as gpu, power or loss")] = "",
    ) -> Answer:
        """Names of metrics that `query` can ask about, with what each means where that is known."""
        every = self._client.get("/api/v1/label/__name__/values")["data"]
        names = [name for name in every if contains.lower() in name.lower()]
        described = self._client.get("/api/v1/metadata", {"limit_per_metric": "1"})["data"]
        told = {name: next((one["help"] for one in described.get(name, [])), "") for name in names[:_NAMES]}
        more = len(names) - len(told)
        return {**_warned([f"{more} more: name a longer part"] if more else []), "data": told}

    def every(self) -> tuple[Callable[..., Answer], ...]:
        """In the order in which one would think of them."""
        return (
            self.incidents,
            self.workloads,
            self.show,
            self.why,
            self.findings,
            self.gpus,
            self.runs,
            self.lineage,
            self.cost,
            self.query,
            self.metrics,
        )


def _given(**params: str | None) -> dict[str, str]:
    return {name: value for name, value in params.items() if value is not None}


def _seconds(text: str, now_s: float) -> str:
    return f"{read_moment(text, now_s):.3f}"


def _told(answer: Answer) -> Answer:
    """What may be wrong with it stands first."""
    return {**_warned([*answer.get("warnings", []), *answer.get("infos", [])]), "data": answer["data"]}


def _warned(warnings: list[str]) -> Answer:
    return {"warnings": warnings} if warnings else {}
