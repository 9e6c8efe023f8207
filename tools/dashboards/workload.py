"""One workload, or those of a namespace or team: its program, its GPUs, its pods, its money."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from tools.dashboards.board import CLUSTER, Board, Chosen, Section, field, link
from tools.dashboards.panels import Levels, Line, chart, listing, number

_OF: Final = 'cluster=~"$cluster", namespace=~"$namespace", workload=~"$workload"'
_W: Final = f'{_OF}, team=~"$team"'
_PHASE: Final = "trilens_workload_phase"
_MEAN, _LEAST, _MOST = (f', over="{over}"' for over in ("mean", "least", "most"))
_FIRING: Final = ', alertstate="firing"'
_NAME: Final = "{{namespace}}/{{workload}}"
_PAGE: Final = link(
    "This workload in Trilens",
    f"${{trilens}}/workloads/{field('cluster')}/{field('namespace')}/{field('kind')}/{field('workload')}",
)


def _theirs(series: str, only: str = "") -> str:
    """Where series need not have a label `team`: those of workloads of the chosen ones. While none is chosen
    all, also what is about no workload."""
    of_workloads = f"and on (cluster, namespace, kind, workload) {_PHASE}{{{_W}}}"
    return f"{series}{{{_W}{only}}} or {series}{{{_OF}{only}}} {of_workloads}"


_VARIABLES: Final = (
    CLUSTER,
    Chosen("team", "team", 'trilens_workload_phase{cluster=~"$cluster"}', "Who owns it."),
    Chosen(
        "namespace",
        "namespace",
        'trilens_workload_phase{cluster=~"$cluster", team=~"$team"}',
        "Of Kubernetes.",
    ),
    Chosen(
        "workload",
        "workload",
        'trilens_workload_phase{cluster=~"$cluster", team=~"$team", namespace=~"$namespace"}',
        "A job, a service, a notebook; what owns pods in the end.",
    ),
)

_NOW: Final = Section(
    "Now",
    (
        number("Workloads", f"count({_PHASE}{{{_W}}})", units.Short, "That are not over."),
        number(
            "GPUs", f"sum({_theirs('trilens:workload_gpus:count')})", units.Short, "That tell of themselves."
        ),
        number(
            "Utilization",
            f"avg({_theirs('trilens:workload_gpu_utilization:ratio', _MEAN)})",
            units.PercentUnit,
            "Some kernel ran, no more: a hung collective shows 100 %.",
            Levels(0.5, 0.3),
        ),
        number(
            "Money an hour",
            f"sum(trilens_workload_cost_rate_per_hour{{{_W}}})",
            units.Short,
            "In the currency of your prices.",
            decimals=2,
        ),
        number(
            "Ranks",
            f"sum(trilens:training_ranks:count{{{_W}}})",
            units.Short,
            "Of training, that are scraped.",
        ),
        number(
            "Longest without a step",
            f"max(time() - trilens:training_last_step:timestamp_seconds{{{_W}}})",
            units.Seconds,
            "Of all runs, the one whose slowest rank made its last step the longest ago.",
            Levels(300, 600),
        ),
    ),
)

_PROGRAM: Final = Section(
    "Its program",
    (
        chart(
            "Loss",
            [Line(f"trilens:training_loss:mean{{{_W}}}", f"{_NAME}")],
            units.NoUnit,
            "The mean over ranks whose last value is finite.",
        ),
        chart(
            "Speed of a rank",
            [Line(f"trilens:training_speed:per_second{{{_W}}}", f"{_NAME}, {{{{unit}}}}")],
            units.Short,
            "Samples, else tokens, else steps a second.",
        ),
        chart(
            "Norm of the gradient",
            [Line(f"trilens:training_gradient_norm:max{{{_W}}}", _NAME)],
            units.NoUnit,
            "The largest of its ranks.",
        ),
        chart(
            "Waiting for data",
            [Line(f"trilens:training_data_wait:ratio{{{_W}}}", _NAME)],
            units.PercentUnit,
            "The part of the time in steps that is spent waiting for data.",
            levels=Levels(0.15, 0.3),
        ),
        chart(
            "Since the last step",
            [Line(f"time() - trilens:training_last_step:timestamp_seconds{{{_W}}}", _NAME)],
            units.Seconds,
            "By the slowest rank. A line that climbs is a run that stands.",
            levels=Levels(300, 600),
        ),
        chart(
            "Since the last checkpoint",
            [Line(f"time() - trilens:training_checkpoint_last:timestamp_seconds{{{_W}}}", _NAME)],
            units.Seconds,
            "What a crash now would cost in work done again.",
        ),
    ),
)

_GPUS: Final = Section(
    "Its GPUs",
    (
        chart(
            "Utilization of the least busy GPU",
            [Line(_theirs("trilens:workload_gpu_utilization:ratio", _LEAST), _NAME)],
            units.PercentUnit,
            "One GPU that does nothing holds up a whole job.",
            most=1,
        ),
        chart(
            "Tensor cores active",
            [Line(f"avg by (namespace, workload) (trilens:tensor_active:ratio{{{_W}}})", _NAME)],
            units.PercentUnit,
            "The mean over its GPUs: how much of the time matrices were multiplied.",
            most=1,
        ),
        chart(
            "GPU memory taken, the fullest GPU",
            [Line(f"max by (namespace, workload) (trilens:gpu_memory_used:ratio{{{_W}}})", _NAME)],
            units.PercentUnit,
            "A line that climbs without end is a leak.",
            levels=Levels(0.9, 0.97),
            most=1,
        ),
        chart(
            "Power",
            [Line(_theirs("trilens:workload_gpu_power:watts", _MEAN), _NAME)],
            units.Watt,
            "The mean of its GPUs. Low power at high utilization is a hang.",
        ),
        chart(
            "Temperature of the hottest GPU",
            [Line(_theirs("trilens:workload_gpu_temperature:celsius", _MOST), _NAME)],
            units.Celsius,
            "The clock falls beyond about 85 C.",
            levels=Levels(80, 88),
        ),
        chart(
            "Clock of the slowest GPU",
            [Line(_theirs("trilens:workload_sm_clock:hertz", _LEAST), _NAME)],
            units.Hertz,
            "The slowest GPU sets the pace of all ranks.",
        ),
    ),
)

_PODS: Final = Section(
    "Its pods and its money",
    (
        chart(
            "Pods by phase",
            [Line(f"sum by (phase) (trilens:workload_pods:count{{{_W}}})", "{{phase}}")],
            units.Short,
            "As Kubernetes tells it.",
            stacked=True,
        ),
        chart(
            "Restarts",
            [Line(f"sum by (namespace, workload) (trilens:workload_restarts:total{{{_W}}})", _NAME)],
            units.Short,
            "Of the containers that there are now.",
        ),
        chart(
            "Money an hour, each",
            [Line(f"sum by (namespace, workload) (trilens_workload_cost_rate_per_hour{{{_W}}})", _NAME)],
            units.Short,
            "In the currency of your prices.",
            stacked=True,
        ),
        chart(
            "Time in each phase",
            [
                Line(
                    f"sum by (phase) (rate(trilens_workload_phase_seconds_total{{{_W}}}[$__rate_interval]))",
                    "{{phase}}",
                )
            ],
            units.Short,
            "How many workloads are in each phase on the average: queued, starting, running, stalled, ...",
            stacked=True,
        ),
    ),
)

_TROUBLE: Final = Section(
    "Trouble",
    (
        listing(
            "All of them",
            f"sum by (cluster, namespace, kind, workload, team, phase) ({_PHASE}{{{_W}}} == 1)",
            "With the phase that each is in.",
            {"workload": _PAGE},
        ),
        listing(
            "Alerts about them",
            "sum by (alertname, severity, cluster, namespace, kind, workload) "
            f"({_theirs('ALERTS', _FIRING)})",
            "What fires now.",
            {"workload": _PAGE},
            value="how many",
        ),
        listing(
            "Findings about them",
            "sum by (finding, cause, severity, cluster, namespace, kind, workload, rank, node) "
            f"({_theirs('trilens_finding')})",
            "What the detectors see now, with the rank where one is to blame.",
            {"workload": _PAGE},
        ),
        listing(
            "Containers that wait",
            f"sum by (namespace, workload, reason) (trilens:workload_containers_waiting:count{{{_W}}}) > 0",
            "CrashLoopBackOff, ImagePullBackOff, ...; empty where none does.",
            {},
            value="containers",
        ),
    ),
)

WORKLOAD: Final = Board(
    "workload",
    "Workload",
    "One workload, or those of a namespace or team: its program, its GPUs, its pods and its money.",
    _VARIABLES,
    (_NOW, _PROGRAM, _GPUS, _PODS, _TROUBLE),
    page="/workloads",
)
