"""Money: how fast it goes, on whom, on what, and what of it is for nothing."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from tools.dashboards.board import CLUSTER, Board, Chosen, Section, field, to_board
from tools.dashboards.panels import Levels, Line, chart, listing, number, over_gpu_time, ranking

_C: Final = 'cluster=~"$cluster"'
_T: Final = f'{_C}, team=~"$team"'
_CURRENCY: Final = "In the currency of your prices."

_NOW: Final = Section(
    "Now",
    (
        number("An hour", f"sum(trilens:cost_rate:per_hour{{{_T}}})", units.Short, _CURRENCY, decimals=2),
        number(
            "For nothing, an hour",
            f"sum(trilens:cost_wasted_rate:per_hour{{{_T}}})",
            units.Short,
            "All but what computed, answered or wrote a checkpoint. `trilens cost why` names the causes.",
            decimals=2,
        ),
        number(
            "For nothing, of all",
            f"sum(trilens:cost_wasted_rate:per_hour{{{_T}}}) / sum(trilens:cost_rate:per_hour{{{_T}}})",
            units.PercentUnit,
            "The part of what is spent now.",
            Levels(0.25, 0.4),
        ),
        number(
            "Today",
            f"sum(trilens_cost_today{{{_T}}})",
            units.Short,
            f"Since midnight UTC. {_CURRENCY}",
            decimals=0,
        ),
        number(
            "This month",
            f"sum(trilens_cost_month{{{_T}}})",
            units.Short,
            f"Since the first, UTC. {_CURRENCY}",
            decimals=0,
        ),
        number(
            "Goodput, last day",
            over_gpu_time("trilens_team_goodput_ratio", "cluster, team", f'{_T}, team!=""'),
            units.PercentUnit,
            "Useful GPU time of that which teams held.",
            Levels(0.6, 0.4),
        ),
    ),
)

_COURSE: Final = Section(
    "How it goes",
    (
        chart(
            "Money an hour by team",
            [Line(f"sum by (team) (trilens:cost_rate:per_hour{{{_T}}})", "{{team}}")],
            units.Short,
            "Without a name: time that nobody held.",
            stacked=True,
        ),
        chart(
            "Money an hour by what for",
            [Line(f"sum by (bucket) (trilens_cost_rate_per_hour{{{_T}}})", "{{bucket}}")],
            units.Short,
            "Buckets of the ledger.",
            stacked=True,
        ),
        chart(
            "For nothing, by team",
            [Line(f'trilens:cost_wasted:ratio{{{_T}, team!=""}}', "{{team}}")],
            units.PercentUnit,
            "The part of what each team's GPUs cost.",
            levels=Levels(0.25, 0.4),
            most=1,
        ),
        chart(
            "Goodput by team, last day",
            [Line(f"trilens_team_goodput_ratio{{{_T}}}", "{{team}}")],
            units.PercentUnit,
            "Of the GPUs that a team held.",
            most=1,
        ),
    ),
)

_WHO: Final = Section(
    "Who and what",
    (
        ranking(
            "The dearest workloads",
            f"topk(15, sum by (namespace, workload) (trilens_workload_cost_rate_per_hour{{{_T}}}))",
            "{{namespace}}/{{workload}}",
            units.Short,
            "Money an hour now.",
        ),
        listing(
            "All workloads",
            "sum by (cluster, namespace, workload, kind, team, currency) "
            f"(trilens_workload_cost_rate_per_hour{{{_T}}})",
            "Money an hour now.",
            {
                "workload": to_board(
                    "workload",
                    cluster=field("cluster"),
                    namespace=field("namespace"),
                    workload=field("workload"),
                )
            },
            value="an hour",
        ),
        chart(
            "GPUs by what they do",
            [Line(f"sum by (bucket) (trilens_cost_gpus{{{_T}}})", "{{bucket}}")],
            units.Short,
            "On the average of the open hour.",
            stacked=True,
        ),
        ranking(
            "This month by team",
            f"sum by (team) (trilens_cost_month{{{_T}}})",
            "{{team}}",
            units.Short,
            _CURRENCY,
        ),
    ),
)


def _budgets(series: str) -> str:
    """Those of other teams than the chosen ones are nobody's here; what is of no team is everybody's."""
    return f'{series}{{of!="team"}} or {series}{{of="team", name=~"$team"}}'


_BUDGETS: Final = Section(
    "Budgets",
    (
        chart(
            "Spent of the budget",
            [Line(_budgets("trilens:budget_spent:ratio"), "{{of}} {{name}}")],
            units.PercentUnit,
            "Of this month; there where `budgets` is set.",
            levels=Levels(0.8, 0.9),
        ),
        chart(
            "Expected by the end of the month",
            [Line(_budgets("trilens:budget_expected:ratio"), "{{of}} {{name}}")],
            units.PercentUnit,
            "At the mean of the last days; absent while too little is known.",
            levels=Levels(0.9, 1),
        ),
        listing(
            "GPUs without a price",
            f"sum by (cluster, gpu_model) (trilens_cost_unpriced_gpus{{{_C}}})",
            "Their time is in no amount. Empty where all have one.",
            {},
            value="GPUs",
        ),
    ),
)

COST: Final = Board(
    "cost",
    "Cost",
    "How fast money goes, on whom and on what, and what of it is for nothing. "
    "`trilens cost` has exact sums of any time.",
    (CLUSTER, Chosen("team", "team", f"trilens_cost_rate_per_hour{{{_C}}}", "Who owns the workloads.")),
    (_NOW, _COURSE, _WHO, _BUDGETS),
    page="/money",
    since="now-24h",
)
