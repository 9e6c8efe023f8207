"""One workload from inside: its ranks and GPUs, and what is wrong with it."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from trilens.cli.cost_figures import amount_text, share_text
from trilens.cli.order import natural
from trilens.cli.times import show_length
from trilens.cli.top.curves import Curves
from trilens.cli.top.picture import OneWorkload, RankGpu, Told
from trilens.model.errors import ServerError
from trilens.model.step_phases import SYNC_PHASES
from trilens.promql.annotations import quote as quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.cli.client import Client
    from trilens.cli.top.picture import Workload

    Figures = Mapping[tuple[str, str], float]  # by pod and rank, or by UUID

_USE: Final = "trilens:gpu_utilization:ratio"
_TEMPERATURE: Final = "DCGM_FI_DEV_GPU_TEMP"
_MOST_CURVES: Final = 512  # of larger jobs only the present is asked for
_STEPS, _STEP_SECONDS = "training_steps_total", "training_step_seconds_total"
_PHASES: Final = "training_step_phase_seconds_total"
_SYNC: Final = quoted("|".join(SYNC_PHASES))
_STEP_WINDOW: Final = "2m"  # of which the mean is shown: a few steps of the slowest


class Inside:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._curves = Curves(client, ("UUID",))

    def ask(self, workload: Workload) -> OneWorkload:
        """Raises ServerError."""
        path = quote(workload.path)
        found = self._client.get(f"/api/workloads/{path}")["data"]
        whose = {"workload": workload.name}
        incidents = self._client.get("/api/incidents", whose)["data"]
        findings = self._client.get("/api/findings", whose)["data"]
        return OneWorkload(
            workload.path,
            _lines(found),
            tuple(told_incident(one) for one in incidents if hits(one, workload)),
            tuple(told_finding(one) for one in findings if is_of(one, workload)),
            self._ranks(workload, found["gpus"]),
        )

    def _ranks(self, workload: Workload, gpus: Sequence[Mapping[str, Any]]) -> tuple[RankGpu, ...]:
        place = {"cluster": workload.cluster, "namespace": workload.namespace}
        ranks = _matchers(**place)
        whose = _matchers(**place, kind=workload.kind, workload=workload.name)
        pods = f"and on (namespace, pod) trilens_workload_pod_info{{{whose}}}"
        times = (
            f"rate({_STEP_SECONDS}{{{ranks}}}[{_STEP_WINDOW}]) / rate({_STEPS}{{{ranks}}}[{_STEP_WINDOW}])"
        )
        waits = (
            f"sum without (phase) (rate({_PHASES}{{{ranks}, phase=~{_SYNC}}}[{_STEP_WINDOW}]))"
            f" / rate({_STEPS}{{{ranks}}}[{_STEP_WINDOW}])"
        )
        steps = self._by_rank(f"training_step{{{ranks}}} {pods}")
        step_s = self._by_rank(f"({times}) {pods}")
        wait_s = self._by_rank(f"({waits}) {pods}")
        held = f"and on (UUID) trilens_workload_gpu_info{{{_matchers(**place, workload=workload.name)}}}"
        celsius = self._by_gpu(f"{_TEMPERATURE} {held}")
        curves = self._curves.of(f"{_USE}{{{whose}}}") if len(gpus) <= _MOST_CURVES else {}
        last = max((one["attempt"] for one in gpus), default=0)
        found = [
            RankGpu(
                one["rank"],
                one["pod"],
                one["node"],
                one["index"],
                one["utilization"],
                one["power_watts"],
                celsius.get(one["uuid"]),
                _whole(steps.get((one["pod"], str(one["rank"])))),
                step_s.get((one["pod"], str(one["rank"]))),
                _own(step_s.get((one["pod"], str(one["rank"]))), wait_s.get((one["pod"], str(one["rank"])))),
                curves.get((one["uuid"],), ()),
            )
            for one in gpus
            if one["attempt"] == last and one["to_ms"] is None
        ]
        return tuple(sorted(found, key=lambda one: (one.rank is None, one.rank or 0, natural(one.pod))))

    def _by_rank(self, query: str) -> dict[tuple[str, str], float]:
        return {
            (labels.get("pod", ""), labels.get("rank", "")): value for labels, value in self._samples(query)
        }

    def _by_gpu(self, query: str) -> dict[str, float]:
        return {labels.get("UUID", ""): value for labels, value in self._samples(query)}

    def _samples(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Nothing where the server cannot tell: another one may hold the samples."""
        try:
            found = self._client.post("/api/v1/query", form={"query": query})["data"]["result"]
        except ServerError:
            return []
        told = ((series["metric"], float(series["value"][1])) for series in found)
        return [(labels, value) for labels, value in told if math.isfinite(value)]


def told_incident(one: Mapping[str, Any]) -> Told:
    lost = Decimal(one["lost"]) if one["lost"] is not None else None
    return Told(one["severity"], one["id"], one["title"], one["onset_ms"], one["action"] or "", lost)


def told_finding(one: Mapping[str, Any]) -> Told:
    return Told(one["severity"], one["code"], one["text"], one["onset_ms"], one["action"] or "")


def hits(incident: Mapping[str, Any], workload: Workload) -> bool:
    """Those that suffer are named without their cluster: where its own is known, they are of that one."""
    named = f"{workload.namespace}/{workload.kind}/{workload.name}"
    return named in incident["workloads"] and incident["subject"]["cluster"] in (None, workload.cluster)


def is_of(finding: Mapping[str, Any], workload: Workload) -> bool:
    whose = finding["workload"]
    return whose is not None and (whose["cluster"], whose["namespace"], whose["kind"], whose["name"]) == (
        workload.cluster,
        workload.namespace,
        workload.kind,
        workload.name,
    )


def _lines(found: Mapping[str, Any]) -> tuple[str, ...]:
    one, spent = found["workload"], found["spent"]
    phase = one["phase"]
    state = "in no phase that is known"
    if one["gone"]:
        state = f"gone for {show_length(max(0.0, time.time() - one['gone']['at_ms'] / 1000))}"
    elif phase:
        reason = f" ({phase['reason']})" if phase["reason"] else ""
        state = f"{phase['phase']}{reason} for {show_length(phase['seconds'])}"
    members = one["members"]
    ready = "?" if members["ready"] is None else members["ready"]
    lines = [f"{state}, {ready} of {members['total']} pods ready, team {one['team'] or 'unknown'}"]
    if spent is not None and spent["gap"] is None:
        cost, lost = (
            amount_text(spent[name], spent["currency"], brief=True) for name in ("amount", "for_nothing")
        )
        useful = f", goodput {share_text(spent['goodput'])}" if spent["goodput"] is not None else ""
        lines.append(f"cost {cost} so far, {lost} of it for nothing{useful}")
    return tuple(lines)


def _matchers(**labels: str) -> str:
    return ", ".join(f"{name}={quoted(value)}" for name, value in labels.items())


def _own(step_s: float | None, wait_s: float | None) -> float | None:
    return max(0.0, step_s - wait_s) if step_s is not None and wait_s is not None else None


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None else None
