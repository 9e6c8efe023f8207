"""Rules for objectives, as the text of a Prometheus rule file."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import yaml

from trilens.alert.slo.burning import FAST, SLOW, possible
from trilens.alert.slo.indicators import counted
from trilens.settings.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from decimal import Decimal

    from trilens.alert.slo.burning import Pace
    from trilens.alert.slo.file import Objective

_LOOK_S: Final = 30  # as often as the vocabulary is recorded
_SUM: Final = timedelta(
    minutes=3
)  # long windows are made of sums; below the five minutes that a sample is shown
_DAY: Final = timedelta(days=1)
_ALLOWED: Final = {
    "latency": "{share} of the requests may take longer than {threshold}",
    "ttft": "{share} of the first tokens may take longer than {threshold}",
    "errors": "{share} of the requests may fail",
    "availability": "it may be unavailable for {share} of the time",
}
_WHO: Final = (
    "{{ with $labels.namespace }}{{ . }}/{{ end }}{{ or $labels.workload $labels.service $labels.job }}"
    "{{ with $labels.model }} ({{ . }}){{ end }}"
)
_ACTION: Final = {
    "latency": "Look at its queue and its cache (`trilens show`), and add replicas; see InferenceP99High.",
    "ttft": "Look whether requests wait (`trilens show`), and add replicas; see InferenceFirstTokenSlow.",
    "errors": "Read its log (`trilens logs`) and its events (`trilens events`); roll back what is new.",
    "availability": "Look at its pods (`trilens show`, `trilens events`) and their logs (`trilens logs`).",
}

Rule = dict[str, Any]


def slo_rules(objectives: Iterable[Objective], source: str) -> str:
    """The text of a rule file; `source` is named in it as where it was made from."""
    groups = [group for objective in objectives for group in _groups(objective)]
    head = f"# Made from {source} by `trilens rules slo`: change that one. What is recorded: docs/slo.md.\n"
    return head + yaml.dump(
        {"groups": groups}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )


def slo_warnings(objectives: Iterable[Objective]) -> Iterator[str]:
    for objective in objectives:
        left_out = [pace for pace in (*FAST, *SLOW) if pace not in possible((*FAST, *SLOW), objective)]
        if len(left_out) == len((*FAST, *SLOW)):
            yield f"{objective.name}: no burn rate of this objective and window can be alerted on"
            continue
        for pace in left_out:
            factor = pace.factor(objective.window)
            why = (
                f"{factor * objective.budget:.0%} of all had to be bad"
                if factor >= 1
                else "that is slower than allowed"
            )
            yield (
                f"{objective.name}: burning {pace.share:.0%} of the budget in {format_duration(pace.long)} "
                f"is not alerted on: {why}"
            )


def _groups(objective: Objective) -> Iterator[dict[str, Any]]:
    fast, slow = possible(FAST, objective), possible(SLOW, objective)
    short = {pace.long for pace in fast} | {pace.short for pace in (*fast, *slow)}
    yield {
        "name": f"trilens-slo-{objective.name}",
        "interval": f"{_LOOK_S}s",
        "rules": [
            *_counts(objective),
            *(_ratio(objective, window, "per_second") for window in sorted(short)),
            *_burning(objective, "SloBurningFast", "critical", fast),
            _not_measured(objective),
        ],
    }
    long = {pace.long for pace in slow} | {objective.window}
    yield {
        "name": f"trilens-slo-slow-{objective.name}",
        "interval": format_duration(_SUM),
        "rules": [
            *(_sum(objective, what) for what in ("events", "bad_events")),
            *(_ratio(objective, window, "sum") for window in sorted(long)),
            *_budget(objective),
            *_burning(objective, "SloBurningSlow", "warning", slow),
            _budget_spent(objective),
        ],
    }


def _counts(objective: Objective) -> Iterator[Rule]:
    found = counted(objective)
    yield _record(objective, "trilens:slo_events:per_second", found.events)
    yield _record(objective, "trilens:slo_bad_events:per_second", found.bad)


def _sum(objective: Objective, what: str) -> Rule:
    summed = f"sum_over_time({_of(objective, f'trilens:slo_{what}:per_second')}[{format_duration(_SUM)}])"
    return _record(objective, f"trilens:slo_{what}:sum", summed)


def _ratio(objective: Objective, window: timedelta, of: str) -> Rule:
    length = format_duration(window)
    bad = f"sum_over_time({_of(objective, f'trilens:slo_bad_events:{of}')}[{length}])"
    every = f"sum_over_time({_of(objective, f'trilens:slo_events:{of}')}[{length}])"
    return _record(objective, "trilens:slo_bad:ratio", f"{bad}\n/ ({every} > 0)", window=length)


def _budget(objective: Objective) -> Iterator[Rule]:
    spent = _of(objective, "trilens:slo_bad:ratio", window=format_duration(objective.window))
    yield _record(objective, "trilens:slo_objective:ratio", f"vector({_plain(1 - objective.budget)})")
    yield _record(
        objective,
        "trilens:slo_budget_left:ratio",
        f"max without (window) (1 - {spent} / {_plain(objective.budget)})",
    )


def _burning(objective: Objective, alert: str, severity: str, paces: Sequence[Pace]) -> Iterator[Rule]:
    if not paces:
        return
    tests = "\n  or\n".join(_too_fast(objective, pace) for pace in paces)
    yield _alert(
        objective,
        alert,
        severity,
        f"max without (window) (\n{tests}\n)\n{_still_there(objective)}",
        f"{_WHO} burns its error budget {{{{ $value | humanize }}}} times too fast: {objective.name}",
        f"{_allowed(objective)}. It was too much over a long window, and still is over a short one.",
        _ACTION[objective.indicator],
    )


def _too_fast(objective: Objective, pace: Pace) -> str:
    factor, budget = _plain(pace.factor(objective.window)), _plain(objective.budget)
    long, short = (
        f"{_of(objective, 'trilens:slo_bad:ratio', window=format_duration(window))} / {budget} > {factor}"
        for window in (pace.long, pace.short)
    )
    lines = [long, f"and ignoring (window) {short}"]
    if objective.indicator != "availability" and objective.min_requests:
        events = _of(objective, "trilens:slo_events:per_second")
        of_late = min(pace.long, _DAY / 4)  # enough to tell a quiet service by, and never long to read
        lines.append(
            f"and ignoring (window) sum_over_time({events}[{format_duration(of_late)}]) * {_LOOK_S} "
            f">= {objective.min_requests}"
        )
    return "  (\n" + "".join(f"    {line}\n" for line in lines) + "  )"


def _still_there(objective: Objective) -> str:
    """Long windows remember services that are gone; nobody is to be told of those."""
    return f"and last_over_time({_of(objective, 'trilens:slo_events:per_second')}[1h])"


def _budget_spent(objective: Objective) -> Rule:
    return _alert(
        objective,
        "SloBudgetSpent",
        "warning",
        f"{_of(objective, 'trilens:slo_budget_left:ratio')} <= 0\n{_still_there(objective)}",
        f"{_WHO} has used up its error budget: {objective.name}",
        f"{_allowed(objective)}; it was more.",
        "Put off what may break it further, and mend what does, until some budget is back.",
    )


def _not_measured(objective: Objective) -> Rule:
    bad = _of(objective, "trilens:slo_bad_events:per_second")
    rule = _alert(
        objective,
        "SloNotMeasured",
        "info",
        f"{counted(objective).seen}\nunless on (cluster, namespace, workload, job) {bad}\n"
        f"{_behind_gateway(objective)}or\nabsent_over_time({bad}[1h])",
        f"nothing is known of the objective {objective.name}"
        "{{ with $labels.workload }} for {{ . }}{{ end }}{{ with $labels.job }} (job {{ . }}){{ end }}",
        "No service matches it, or the service does not tell this: no alert of this objective can fire.",
        "Compare its `service` with the labels of trilens:inference_requests:per_second; docs/serving.md has "
        "what each server tells.",
    )
    return {**rule, "for": "15m"}


def _behind_gateway(objective: Objective) -> str:
    """Gateways tell services, not workloads: one that tells of a namespace may well mean this one."""
    if objective.indicator != "errors":
        return ""
    told = _of(objective, "trilens:slo_bad_events:per_second").removesuffix("}")
    return f'unless on (namespace) {told}, service!=""}}\n'


def _record(objective: Objective, name: str, expr: str, **labels: str) -> Rule:
    return {"record": name, "expr": expr, "labels": {"slo": objective.name, **labels}}


def _alert(
    objective: Objective, name: str, severity: str, expr: str, summary: str, description: str, action: str
) -> Rule:
    return {
        "alert": name,
        "expr": expr,
        "labels": {"severity": severity, "layer": "inference", "slo": objective.name, **objective.labels},
        "annotations": {
            "summary": summary,
            "description": f"{objective.description} {description}".strip(),
            "action": action,
            "runbook": f"docs/slo.md#{name.lower()}",
        },
    }


def _of(objective: Objective, metric: str, **labels: str) -> str:
    matchers = ", ".join(f'{name}="{value}"' for name, value in {"slo": objective.name, **labels}.items())
    return f"{metric}{{{matchers}}}"


def _allowed(objective: Objective) -> str:
    share = f"{_plain(objective.budget * 100)} %"
    threshold = objective.threshold and f"{objective.threshold.total_seconds():g} s"
    allowed = _ALLOWED[objective.indicator].format(share=share, threshold=threshold)
    return f"In {format_duration(objective.window)}, {allowed}"


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines as blocks, to be read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
