"""What somebody reads who is woken: no holes in it, whatever is not known."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest
import yaml

from trilens.alert.templates.expand import External, expand
from trilens.rules import rule_files

HERE: Final = Path(__file__).parent / "alerts"
READ: Final = ("summary", "description", "action")
# Two spaces, empty brackets, a space before punctuation, half of namespace/name, and what templates leave.
HOLE: Final = re.compile(r"  |(?<!\w)\(\)|<no value>|<error|%!| [,:;)]| \.( |$)|(^| )/(?!api/)|/( |$)|^ | $")
# How long it lasts: a summary is an incident's title, which stays when the alert is over.
AGE: Final = re.compile(r"\bfor (an hour|\d+ ?(s|m|h|d|minutes|hours|days)\b)|\d+[smhd] (ago|old)\b")
# What many do not have: no cluster in labels, no team, no SDK, no Kubernetes.
OFTEN_UNKNOWN: Final = (
    {"cluster"},
    {"team"},
    {"run"},
    {"model"},
    {"rank", "node"},
    {"gpu"},
    {"cause"},
    {"cluster", "team", "run", "model", "rank", "cause"},
)


def texts() -> dict[str, dict[str, str]]:
    return {
        rule["alert"]: rule["annotations"]
        for entry in rule_files()
        for group in yaml.safe_load(entry.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }


def fired() -> dict[str, list[tuple[dict[str, str], dict[str, str]]]]:
    """Labels and texts as the unit tests have them: what promtool and our runner both say that it becomes."""
    found: defaultdict[str, list[tuple[dict[str, str], dict[str, str]]]] = defaultdict(list)
    for file in sorted(HERE.glob("*.yml")):
        for test in yaml.safe_load(file.read_text(encoding="utf-8"))["tests"]:
            for one in test.get("alert_rule_test", ()):
                for alert in one["exp_alerts"]:
                    found[one["alertname"]].append((alert["exp_labels"], alert["exp_annotations"]))
    return found


TEXTS: Final = texts()
FIRED: Final = fired()
# Alerts that are there only with these labels.
OWN: Final = {
    name: {"rank"}
    if name == "TrainingRankMissing"
    else {"node"}
    if name.startswith("GpuXid")
    else {"node", "gpu"}
    for name in TEXTS
    if name.startswith(("Gpu", "Node", "Dcgm")) or name == "TrainingRankMissing"
}


def holes(text: str) -> list[str]:
    told = [code for code in re.findall("`([^`]*)`", text) if code.strip() != code or not code]
    return told + [hole[0] for hole in HOLE.finditer(re.sub("`[^`]*`", "code", text))]


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_an_alert_has_no_holes(name: str) -> None:
    assert FIRED[name]
    for _, told in FIRED[name]:
        for part in READ:
            assert not holes(told[part]), told[part]
            assert len(told["summary"]) < 140


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_an_alert_has_no_holes_where_little_is_known(name: str) -> None:
    """And where nobody answers what its texts ask for."""
    labels, _ = max(FIRED[name], key=lambda one: len(one[0]))
    for unknown in OFTEN_UNKNOWN:
        lacking = unknown - OWN.get(name, set())
        known = {label: value for label, value in labels.items() if label not in lacking}
        for part in READ:
            told = expand(TEXTS[name][part], known, 1.5, External("", ()), lambda _query: [], alert=name)
            assert not holes(told), f"without {sorted(lacking)}: {told}"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_how_long_it_lasts_is_not_in_the_summary(name: str) -> None:
    """But where lateness is all that there is to tell: of Trilens itself, as long as it lasts."""
    for labels, told in FIRED[name]:
        if labels["layer"] != "trilens" and name != "LedgerBehind":
            assert not AGE.search(told["summary"])
