"""The shipped alerts: their unit tests under promtool and under our own runner, and what all of them have."""

from __future__ import annotations

import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from servers import require_server
from trilens.alert.rule import AlertingRule
from trilens.alert.rule_file import parse_rules
from trilens.alert.rule_tests.run import run_test_file
from trilens.detect.detectors import DETECTORS
from trilens.model.finding import Severity
from trilens.model.matcher import Matcher
from trilens.model.xid import FOLLOWERS, NVLINK_XIDS, XIDS, Asks
from trilens.promql import nodes
from trilens.promql.parse import parse
from trilens.promql.patterns import matches
from trilens.rules import rule_files
from trilens.rules.thresholds import thresholds
from trilens.settings.duration import duration_ms, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).parent
TEST_FILES: Final = sorted((HERE / "alerts").glob("*.yml"))
PAGES: Final = {"trilens": "self-monitoring.md"}  # of a layer; of all others the one page
PAGE: Final = "\n".join(
    (HERE.parents[1] / "docs" / name).read_text(encoding="utf-8") for name in ("alerts.md", *PAGES.values())
)
LAYERS: Final = {"gpu", "training", "platform", "inference", "money", *PAGES}
# tests/rules/test_rules_for_others.py
FOR_OTHERS: Final = ("TrilensDown", "TrilensNobodyLeads", "TrilensStandbyGone", "TrilensWatchdog")
THRESHOLD: Final = re.compile(r'scalar\(trilens:threshold\{of="(\w+)"\}\)')


def shipped() -> Iterator[AlertingRule]:
    for entry in rule_files():
        for group in parse_rules(entry.read_text(encoding="utf-8"), Path(entry.name), timedelta(minutes=1)):
            yield from (rule for rule in group.rules if isinstance(rule, AlertingRule))


ALERTS: Final = tuple(shipped())
NAMES: Final = sorted({rule.alert for rule in ALERTS})


def expected_row(rule: AlertingRule) -> tuple[str, str]:
    """Of the table of all alerts: what stands before and after the words that say when it fires."""
    used = dict.fromkeys(THRESHOLD.findall(rule.expr))
    numbers = "; ".join(f"`{name}` {thresholds()[name]:g}" for name in used) or "-"
    waits = format_duration(timedelta(milliseconds=rule.for_ms)) if rule.for_ms else "-"
    severity = dict(rule.labels)["severity"]
    inputs = ", ".join(f"`{name}`" for name in metrics_of(rule.expr))
    told = severity if severity in set(Severity) else "as found"
    return f"| [{rule.alert}](#{rule.alert.lower()}) |", f"| {numbers} | {waits} | {told} | {inputs} |"


def threshold_row(name: str) -> str:
    """Of the table of thresholds: what stands before the words that say why."""
    users = [rule.alert for rule in ALERTS if name in THRESHOLD.findall(rule.expr)]
    links = ", ".join(f"[{alert}](#{alert.lower()})" for alert in dict.fromkeys(users))
    return f"| `{name}` | {thresholds()[name]:g} | {links} |"


def metrics_of(expr: str) -> list[str]:
    """What an expression selects, in its order."""
    found: dict[str, None] = {}

    def walk(node: object) -> None:
        if isinstance(node, nodes.Selector):
            found.update({m.value: None for m in node.matchers if m.name == "__name__"})
        for name in getattr(node, "__slots__", ()):
            part = getattr(node, name)
            for one in part if isinstance(part, tuple) else (part,):
                walk(one)

    walk(parse(expr))
    return [name for name in found if name != "trilens:threshold"] or list(found)


def test_promtool_agrees_with_every_test() -> None:
    """One start for all of them."""
    done = subprocess.run(
        [require_server("promtool"), "test", "rules", *TEST_FILES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(TEST_FILES)


@pytest.mark.parametrize("file", TEST_FILES, ids=lambda file: file.stem)
def test_our_runner_agrees(file: Path) -> None:
    report = run_test_file(file)
    assert not report.failures, "\n".join(failure.text for failure in report.failures)
    assert report.checks
    assert not report.warnings


def test_every_alert_is_seen_to_wait_to_fire_and_to_end() -> None:
    asked: dict[str, list[tuple[str, int, int, bool]]] = {name: [] for name in NAMES}
    for file in TEST_FILES:
        for i, test in enumerate(yaml.safe_load(file.read_text())["tests"]):
            for one in test.get("alert_rule_test", ()):
                at_ms = duration_ms(str(one["eval_time"]))
                asked[one["alertname"]].append((file.stem, i, at_ms, bool(one["exp_alerts"])))
    lacking = {}
    for name, moments in asked.items():
        firing = [one for one in moments if one[3]]
        quiet = [one for one in moments if not one[3]]
        waits = any(q[:2] == f[:2] and q[2] < f[2] for q in quiet for f in firing)
        ends = any(q[:2] == f[:2] and q[2] > f[2] for q in quiet for f in firing)
        if not (waits and ends):
            lacking[name] = {"fires": bool(firing), "is quiet before": waits, "ends": ends}
    assert not lacking


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule.alert)
def test_an_alert_says_what_where_and_what_to_do(rule: AlertingRule) -> None:
    labels, texts = dict(rule.labels), dict(rule.annotations)
    assert re.fullmatch(r"([A-Z][a-z0-9]+)+", rule.alert)
    assert labels["severity"] in {*Severity, "{{ $labels.severity }}"}
    assert labels["layer"] in LAYERS
    assert set(texts) == {"summary", "description", "action", "runbook"}
    page = PAGES.get(labels["layer"], "alerts.md")
    assert texts["runbook"] == f"docs/{page}#{rule.alert.lower()}"
    for name in ("summary", "description", "action"):
        assert "\n" not in texts[name]
        assert texts[name].strip() == texts[name] != ""


def test_an_alert_has_one_place() -> None:
    assert len(NAMES) == len({name.lower() for name in NAMES})
    by_group = {
        group["name"]: any("alert" in rule for rule in group["rules"])
        for entry in rule_files()
        for group in yaml.safe_load(entry.read_text(encoding="utf-8"))["groups"]
    }
    assert all(name.startswith("trilens-alerts-") for name, has_alerts in by_group.items() if has_alerts)


def test_every_threshold_is_there_and_used() -> None:
    used = {name for entry in rule_files() for name in THRESHOLD.findall(entry.read_text(encoding="utf-8"))}
    assert used == set(thresholds())


def test_xids_are_classed_as_the_catalogue_has_them() -> None:
    wanted = {
        "GpuXidNodeOut": lambda code: XIDS[code].asks is Asks.NODE_OUT,
        "GpuXidHardware": lambda code: XIDS[code].asks is Asks.GPU_RESET,
        "GpuXidLink": lambda code: XIDS[code].asks is Asks.LOOK and code in NVLINK_XIDS,
        "GpuXidApplication": lambda code: XIDS[code].asks is Asks.APPLICATION,
        "GpuXidNoted": lambda code: XIDS[code].asks is Asks.NOTHING,
    }
    of = {rule.alert: rule.expr for rule in ALERTS if rule.alert.startswith("GpuXid")}
    caught: set[int] = set()
    for name, is_of_class in wanted.items():
        (pattern,) = re.findall(r'xid=~"([^"]+)"', of[name])
        found = {code for code in range(1000) if matches(Matcher("xid", "=~", pattern), str(code))}
        assert found == {code for code in XIDS if is_of_class(code)}, name
        caught |= found
    (pattern,) = re.findall(r'xid!~"([^"]+)"', of["GpuXidUnknown"])
    unknown = {code for code in range(1000) if matches(Matcher("xid", "!~", pattern), str(code))}
    assert unknown == set(range(1000)) - caught - FOLLOWERS
    assert {XIDS[code].asks for code in set(XIDS) - caught} == {Asks.LOOK}
    (text,) = [entry.read_text(encoding="utf-8") for entry in rule_files() if entry.name == "alerts-gpu.yml"]
    for pattern in re.findall(r'xid=~"([^"]+)"\}\[1h\]', text):  # hours in which the hardware failed
        assert {code for code in XIDS if matches(Matcher("xid", "=~", pattern), str(code))} == {
            code for code, xid in XIDS.items() if xid.asks in (Asks.NODE_OUT, Asks.GPU_RESET)
        }


def test_the_action_of_a_finding_goes_by_the_class_of_its_xid() -> None:
    (action,) = [dict(rule.annotations)["action"] for rule in ALERTS if rule.alert == "FindingGpuFault"]
    patterns = re.findall(r'match "\^(.*?)\$"', action)
    classes = (Asks.NODE_OUT, Asks.GPU_RESET, Asks.APPLICATION, Asks.LOOK)
    for pattern, asks in zip(patterns, classes, strict=True):
        found = {code for code in XIDS if re.fullmatch(pattern, f"xid-{code}")}
        links = NVLINK_XIDS if asks is Asks.LOOK else XIDS.keys()
        assert found == {code for code in links if XIDS[code].asks is asks}, asks


def test_every_detector_has_its_alert() -> None:
    found = {code for rule in ALERTS for code in re.findall(r'trilens_finding\{code="(D\d+)"\}', rule.expr)}
    assert found == {f"D{number:03}" for number in range(1, 11)}
    assert {detector.code for detector in DETECTORS} <= found


def test_the_page_has_every_alert_as_it_is() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| [")]
    wanted = [expected_row(rule) for rule in {rule.alert: rule for rule in ALERTS}.values()]
    for link, rest in wanted:
        (row,) = [row for row in rows if row.startswith(link)] or [f"no row {link} ... {rest}"]
        assert row.endswith(rest), f"{row}\nshould end with\n{rest}"
        assert len(row) > len(link) + len(rest) + 10, f"{link} does not say when"
    assert len(rows) == len(wanted)


def test_the_page_has_every_threshold_as_it_is() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| `\w+` \| [\d.e+-]+ \|", line)]
    for name in thresholds():
        assert any(row.startswith(threshold_row(name)) for row in rows), threshold_row(name)
    assert len(rows) == len(thresholds())


def test_the_page_has_what_is_recorded_on_the_way() -> None:
    recorded = {
        rule["record"]
        for entry in rule_files()
        if entry.name.startswith("alerts-")
        for group in yaml.safe_load(entry.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    rows = re.findall(r"^\| `(trilens:\w+:\w+)` \|", PAGE, re.M)
    assert sorted(rows) == sorted(recorded)


def test_the_page_has_a_section_for_every_alert() -> None:
    sections = {m[1]: m[2] for m in re.finditer(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)}
    assert sorted(sections) == sorted([*NAMES, *FOR_OTHERS])
    lacking = [name for name, text in sections.items() if not {"**Means.**", "**Do.**"} <= set(text.split())]
    assert not lacking
