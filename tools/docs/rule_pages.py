"""Every recording rule and every alert that is shipped, from the rule files themselves."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from tools.docs.text import block, code, page, table
from trilens.model.packaged_yaml import packaged_yaml

_RULES = """\
Recording rules that Trilens ships (`src/trilens/rules`) and evaluates by itself; `trilens rules export`
writes them out for another server. What the names mean is in [GPU metrics](../gpu-metrics.md),
[Platform metrics](../platform-metrics.md), [The SDK](../sdk.md), [Serving](../serving.md) and
[Cost as metrics](../cost-metrics.md). Rules of objectives are made of
[their file](../slo.md#what-is-recorded)."""
_ALERTS = """\
Alerts that Trilens ships, as the rule files have them. What each means, and what to do, is in
[Alerts](../alerts.md) and [Watching Trilens itself](../self-monitoring.md); the numbers they compare with
are thresholds there, and can be set. Those of objectives are made of [their file](../slo.md#alerts)."""


class ShippedRule(NamedTuple):
    file: str
    group: str
    rule: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.rule.get("alert") or self.rule["record"])

    @property
    def is_alert(self) -> bool:
        return "alert" in self.rule


@cache
def shipped() -> list[ShippedRule]:
    every = [one for one in files("trilens.rules").iterdir() if one.name.endswith(".yml")]
    return [
        ShippedRule(file.name, group["name"], rule)
        for file in sorted(every, key=lambda one: one.name)
        for group in packaged_yaml("trilens.rules", file.name)["groups"]
        for rule in group["rules"]
    ]


def rules_page() -> str:
    sections = []
    for file in sorted({one.file for one in shipped() if not one.is_alert}):
        rules = [one for one in shipped() if one.file == file and not one.is_alert]
        names = dict.fromkeys(one.name for one in rules)
        parts = [f"## {file}"]
        for name in names:
            same = [one for one in rules if one.name == name]
            parts += [f"### {name}", *(_expression(one) for one in same)]
        sections.append("\n\n".join(parts))
    return page("Recording rules", _RULES, *sections)


def alerts_page() -> str:
    alerts = [one for one in shipped() if one.is_alert]
    rows = [
        (
            f"[{one.name}](#{one.name.lower()})",
            _severity(str(one.rule["labels"].get("severity", ""))),
            str(one.rule["labels"].get("layer", "")),
            str(one.rule.get("for", "at once")),
        )
        for one in alerts
    ]
    summary = table(("alert", "severity", "layer", "after"), rows)
    return page("Alert rules", _ALERTS, summary, *(_alert(one) for one in alerts))


def _severity(label: str) -> str:
    return "the finding's" if "{{" in label else label


def _expression(one: ShippedRule) -> str:
    labels = one.rule.get("labels") or {}
    told = (
        f"Adds {', '.join(code(f'{name}={value}') for name, value in labels.items())}.\n\n" if labels else ""
    )
    return told + block(str(one.rule["expr"]), "promql")


def _alert(one: ShippedRule) -> str:
    texts = one.rule.get("annotations") or {}
    rows = [(name, code(" ".join(str(text).split()))) for name, text in texts.items() if name != "runbook"]
    where = str(texts["runbook"]).removeprefix("docs/")
    return "\n\n".join(
        [
            f"## {one.name}",
            f"In `{one.file}`. [What it means, and what to do](../{where}).",
            block(str(one.rule["expr"]), "promql"),
            table(("text", "template"), rows),
        ]
    )
