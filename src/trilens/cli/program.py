"""What the programs of a workload say of themselves, as `trilens show` puts it beside pods and GPUs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import typer

from trilens.cli.folding import one_or_count, ranges, rows_of
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilens.cli.client import Client

    Program = dict[str, Any]

_STEP: Final = "training_step"
_STEP_ENDED: Final = "training_last_step_timestamp_seconds"
_TRAINING: Final = {
    "training_loss": "loss",
    "training_gradient_norm": "gradient norm",
    "training_samples_per_second": "samples/s",
}
# What each server calls the same figure. Triton does not tell what runs, nor Triton and TGI of a cache.
_SERVING: Final = {
    "running": (
        "vllm:num_requests_running",
        "sglang:num_running_reqs",
        "tgi_batch_current_size",
        "inference_requests_running",
    ),
    "waiting": (
        "vllm:num_requests_waiting",
        "sglang:num_queue_reqs",
        "nv_inference_pending_request_count",
        "tgi_queue_size",
        "inference_queue_depth",
    ),
    "cache used": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
}
_ADDED_UP: Final = {*_SERVING["running"], *_SERVING["waiting"]}  # over a pod's models, engines and queues
_METRICS: Final = (_STEP, _STEP_ENDED, *_TRAINING, *(name for names in _SERVING.values() for name in names))


def programs_of(client: Client, workload: dict[str, Any], at: dict[str, str]) -> list[Program]:
    """A program is a rank, or a pod that has none; `figures` are the last samples of what it exposes."""
    moment = {"time": at["at"]} if "at" in at else {}
    data = client.post("/api/v1/query", form={"query": _query(workload), **moment})["data"]
    figures: defaultdict[tuple[str, str], dict[str, float | str]] = defaultdict(dict)
    for series in data["result"]:
        labels = series["metric"]
        if labels.get("cluster", workload["cluster"]) == workload["cluster"]:
            told = figures[labels["pod"], labels.get("rank", "")]
            name = labels["__name__"]
            told[name] = _together(name, told.get(name), _told(series["value"][1]))
    found = [
        {"pod": pod, "rank": int(rank) if rank.isdecimal() else None, "figures": told}
        for (pod, rank), told in figures.items()
    ]
    return sorted(found, key=lambda one: (one["rank"] is None, one["rank"] or 0, one["pod"]))


def _together(name: str, before: float | str | None, value: float | str) -> float | str:
    """Of a server that tells a figure for each of its parts: what waits or runs in all, the fullest cache."""
    if not isinstance(before, float) or not isinstance(value, float):
        return value
    return before + value if name in _ADDED_UP else max(before, value)


def _told(text: str) -> float | str:
    """JSON has no number for NaN and the infinities: they stay as the server writes them."""
    return value if math.isfinite(value := float(text)) else text


def show_programs(found: list[Program], at_s: float, *, every: bool) -> None:
    training = [one for one in found if _STEP in one["figures"] or _STEP_ENDED in one["figures"]]
    serving = [one for one in found if one not in training]
    if training:
        typer.echo("\ntraining")
        print_table(
            ["rank", "pod", "step", "last step", *_TRAINING.values()],
            [_training_row(group, at_s) for group in _rows(training, every=every)],
            may_go=("pod",),
        )
    if serving:
        typer.echo("\nserving")
        print_table(
            ["pod", *_SERVING],
            [
                [one["pod"], *(_span([one], _first_of(names), _short) for names in _SERVING.values())]
                for one in serving
            ],
        )


def _query(workload: dict[str, Any]) -> str:
    """Joined with the pods by name, as they were at that moment."""
    programs = {"namespace": workload["namespace"]}
    pods = {
        "cluster": workload["cluster"],
        "namespace": workload["namespace"],
        "kind": workload["kind"],
        "workload": workload["name"],
    }
    names = f'__name__=~"{"|".join(_METRICS)}"'
    return (
        f"{{{names}, {_matchers(programs)}}}"
        f" and on (namespace, pod) trilens_workload_pod_info{{{_matchers(pods)}}}"
    )


def _matchers(labels: dict[str, str]) -> str:
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in labels.items())


def _rows(programs: list[Program], *, every: bool) -> list[list[Program]]:
    """Ranks at one step are alike: the ones that lag stand out."""
    return [[one] for one in programs] if every else rows_of(programs, lambda one: one["figures"].get(_STEP))


def _training_row(alike: list[Program], at_s: float) -> list[str]:
    return [
        ranges(one["rank"] for one in alike),
        one_or_count((one["pod"] for one in alike), "pods"),
        _span(alike, _figure(_STEP), lambda step: f"{step:.0f}"),
        _span(alike, _figure(_STEP_ENDED), lambda ended: f"{show_length(max(0.0, at_s - ended))} ago"),
        *(_span(alike, _figure(metric), _short) for metric in _TRAINING),
    ]


def _span(
    programs: list[Program], value: Callable[[Program], float | None], text: Callable[[float], str]
) -> str:
    """What all of them say, or the least and the most; a dash where none says anything."""
    known = sorted(number for one in programs if (number := value(one)) is not None)
    if not known:
        return "-"
    least, most = text(known[0]), text(known[-1])
    return least if least == most else f"{least}..{most}"


def _figure(metric: str) -> Callable[[Program], float | None]:
    return _first_of((metric,))


def _first_of(metrics: Iterable[str]) -> Callable[[Program], float | None]:
    return lambda one: next((float(one["figures"][name]) for name in metrics if name in one["figures"]), None)


def _short(value: float) -> str:
    return f"{value:.4g}"
