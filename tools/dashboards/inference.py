"""Inference servers: whether they answer, how fast, what waits, and what a token costs."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from tools.dashboards.board import CLUSTER, Board, Chosen, Section
from tools.dashboards.panels import Levels, Line, chart, number

_C: Final = 'cluster=~"$cluster"'
_OF: Final = f'{_C}, namespace=~"$namespace", workload=~"$workload"'
_M: Final = f'{_OF}, model=~"$model"'
_NAME: Final = "{{namespace}}/{{workload}} {{model}}"
_SERVER: Final = "trilens:inference_requests:per_second"
_AVAILABILITY: Final = "trilens:inference_availability:ratio"
_MADE: Final = f'trilens:inference_tokens:per_second{{{_OF}, token="completion"}}'
_SERVES: Final = f"and on (cluster, namespace, workload) {_SERVER}{{{_M}}}"


def _that_serve(series: str) -> str:
    """Where series have no label `model`: those of services that serve the chosen ones, or did within a day:
    one that is down serves none. While none is chosen all, also of whom no model is known."""
    of_services = f"and on (cluster, namespace, workload, job) last_over_time({_SERVER}{{{_M}}}[1d])"
    return f"{series}{{{_M}}} or {series}{{{_OF}}} {of_services}"


def _quantiles(series: str) -> list[Line]:
    """Over services the worst: quantiles of several cannot be put together."""
    return [
        Line(
            f'max by (namespace, workload, model) ({series}{{{_M}, quantile="{quantile}"}})',
            f"{_NAME} {name}",
        )
        for quantile, name in (("0.5", "p50"), ("0.95", "p95"), ("0.99", "p99"))
    ]


_NOW: Final = Section(
    "Now",
    (
        number(
            "Requests a second", f"sum({_SERVER}{{{_M}}})", units.RequestsPerSecond, "That ended.", decimals=1
        ),
        number(
            "Availability",
            f"min({_that_serve(_AVAILABILITY)})",
            units.PercentUnit,
            "Of the worst service: 0 while no replica answers, else the requests that did not fail.",
            Levels(0.999, 0.99),
        ),
        number(
            "First token, p95",
            f'max(trilens:inference_time_to_first_token:seconds{{{_M}, quantile="0.95"}})',
            units.Seconds,
            "Of the slowest service.",
            Levels(1, 3),
        ),
        number(
            "Waiting",
            f"sum(trilens:inference_queue:count{{{_M}}})",
            units.Short,
            "Requests in queues.",
            Levels(10, 50),
        ),
        number(
            "Tokens a second",
            f'sum(trilens:inference_tokens:per_second{{{_M}, token="completion"}})',
            units.Short,
            "That were made.",
        ),
        number(
            "A million tokens cost",
            f"sum(trilens_workload_cost_rate_per_hour{{{_OF}}} {_SERVES})"
            f" / (sum({_MADE} {_SERVES}) * 3600 / 1e6)",  # of all its models: a server has one price
            units.Short,
            "Tokens made, of what their servers cost now; in the currency of your prices.",
            decimals=2,
        ),
    ),
)

_ANSWERS: Final = Section(
    "Do they answer, and how fast",
    (
        chart(
            "Requests",
            [Line(f"sum by (namespace, workload, model) ({_SERVER}{{{_M}}})", _NAME)],
            units.RequestsPerSecond,
            "That ended; TGI counts when they arrive.",
        ),
        chart(
            "Requests that fail",
            [
                Line(f"max by (namespace, workload, model) (trilens:inference_errors:ratio{{{_M}}})", _NAME),
                # A proxy knows no models, and a gateway no workload either.
                Line(
                    f"max by (namespace, workload) (trilens:inference_http_errors:ratio{{{_OF}}})",
                    "{{namespace}}/{{workload}}, by a proxy",
                ),
            ],
            units.PercentUnit,
            "Of servers that count them, and of proxies in front of those that do not (older vLLM, SGLang).",
            levels=Levels(0.01, 0.05),
        ),
        chart(
            "Replicas that answer",
            [
                Line(
                    f"min by (namespace, workload) ({_that_serve('trilens:inference_up:ratio')})",
                    "{{namespace}}/{{workload}}",
                )
            ],
            units.PercentUnit,
            "The part of them that answers scrapes.",
            most=1,
        ),
        chart(
            "Availability by service",
            [
                Line(
                    f"min by (namespace, workload) ({_that_serve(_AVAILABILITY)})",
                    "{{namespace}}/{{workload}}",
                )
            ],
            units.PercentUnit,
            "What objectives rest on (docs/slo.md).",
            most=1,
        ),
        chart(
            "Time to the first token",
            _quantiles("trilens:inference_time_to_first_token:seconds"),
            units.Seconds,
            "What somebody waits for before anything appears.",
        ),
        chart(
            "Time between tokens",
            _quantiles("trilens:inference_time_per_token:seconds"),
            units.Seconds,
            "How fast an answer is written.",
        ),
        chart(
            "Time of a request",
            _quantiles("trilens:inference_request_duration:seconds"),
            units.Seconds,
            "From its arrival to the last token.",
        ),
        chart(
            "Time in the queue",
            _quantiles("trilens:inference_queue_time:seconds"),
            units.Seconds,
            "Before a request is worked on.",
        ),
    ),
)

_LOAD: Final = Section(
    "How full they are",
    (
        chart(
            "Running and waiting",
            [
                Line(
                    f"sum by (namespace, workload) (trilens:inference_running:count{{{_M}}})",
                    "{{workload}} running",
                ),
                Line(
                    f"sum by (namespace, workload) (trilens:inference_queue:count{{{_M}}})",
                    "{{workload}} waiting",
                ),
            ],
            units.Short,
            "A queue that grows while as many run as before: more replicas are needed.",
        ),
        chart(
            "Cache for keys and values",
            [
                Line(
                    f"max by (namespace, workload, model) (trilens:inference_kv_cache_used:ratio{{{_M}}})",
                    _NAME,
                )
            ],
            units.PercentUnit,
            "Of the fullest replica.",
            levels=Levels(0.85, 0.95),
            most=1,
        ),
        chart(
            "Preempted for want of cache",
            [
                Line(
                    f"sum by (namespace, workload) (trilens:inference_preemptions:per_second{{{_M}}})",
                    "{{workload}}",
                )
            ],
            units.RequestsPerSecond,
            "Requests that were put back: work done twice.",
        ),
        chart(
            "Tokens",
            [Line(f"sum by (token) (trilens:inference_tokens:per_second{{{_M}}})", "{{token}}")],
            units.Short,
            "A second, read and made.",
        ),
        chart(
            "Utilization of their GPUs",
            [
                Line(
                    f'trilens:workload_gpu_utilization:ratio{{{_OF}, over="mean"}} {_SERVES}',
                    "{{namespace}}/{{workload}}",
                )
            ],
            units.PercentUnit,
            "The mean of a service's GPUs.",
            most=1,
        ),
        chart(
            "Money an hour",
            [
                Line(
                    f"sum by (namespace, workload) (trilens_workload_cost_rate_per_hour{{{_OF}}} {_SERVES})",
                    "{{namespace}}/{{workload}}",
                )
            ],
            units.Short,
            "In the currency of your prices.",
            stacked=True,
        ),
    ),
)

INFERENCE: Final = Board(
    "inference",
    "Inference",
    "Whether inference servers answer, how fast, what waits, and what a token costs: "
    "vLLM, SGLang, Triton, TGI and others.",
    (
        CLUSTER,
        Chosen("namespace", "namespace", f"{_SERVER}{{{_C}}}", "Of Kubernetes."),
        Chosen("workload", "workload", f'{_SERVER}{{{_C}, namespace=~"$namespace"}}', "The service."),
        Chosen("model", "model", f"{_SERVER}{{{_OF}}}", "As the server calls it."),
    ),
    (_NOW, _ANSWERS, _LOAD),
    page="/services",
)
