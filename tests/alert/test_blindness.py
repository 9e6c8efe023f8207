"""Rules that can find nothing because a metric is nowhere, what they lack, and what to do about it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rules_at_work import groups
from servers import require_corpus
from trilens.alert.blindness import blind_rules
from trilens.alert.dcgm_counters import COUNTERS, counters_line
from trilens.alert.rule_file import parse_rules
from trilens.model.labels import METRIC_NAME
from trilens.rules import rule_files

if TYPE_CHECKING:
    from trilens.alert.blindness import BlindRule, HasMetric
    from trilens.model.matcher import Matcher

RECORDED = """
  - {record: 'threshold', expr: 'vector(83)', labels: {of: heat}}
  - {record: 'gpu:info', expr: 'group(DCGM_FI_DEV_GPU_UTIL)'}
  - {record: 'gpu:temp', expr: 'DCGM_FI_DEV_GPU_TEMP * on () group_left () gpu:info'}
  - {record: 'gpu:ecc', expr: 'DCGM_FI_DEV_ECC_DBE_VOL_TOTAL', labels: {counted: volatile}}
  - {record: 'gpu:ecc', expr: 'DCGM_FI_DEV_ECC_DBE_AGG_TOTAL', labels: {counted: aggregate}}
  - {record: 'own:total', expr: 'own:total + 1 or seed'}
"""


def there(*names: str) -> HasMetric:
    """What is there, by name."""

    def has(name: str, matchers: tuple[Matcher, ...]) -> bool:
        (named,) = (m for m in matchers if m.name == METRIC_NAME)
        pattern = named.value if named.op == "=~" else re.escape(named.value)
        return any(re.fullmatch(pattern, one) for one in names)

    return has


def blind(expr: str, *names: str) -> BlindRule | None:
    text = f"groups:\n- name: g\n  rules:{RECORDED}  - {{alert: A, expr: '{expr}'}}\n"
    found = blind_rules(groups(text), there(*names))
    return found[0] if found else None


@pytest.mark.parametrize(
    ("expr", "names", "missing"),
    [
        ("a > 1", ["a"], None),
        ("a > 1", [], ("a",)),
        ("a and b", ["a"], ("b",)),
        ("a / on () b", [], ("a", "b")),
        ("a or b", ["b"], None),
        ("a or b", [], ("a or b",)),
        ("a unless b", ["a"], None),
        ("a unless b", ["b"], ("a",)),
        ("(a or b) and c", [], ("a or b", "c")),
        ("rate(a[5m]) + sum by (x) (b)", ["a"], ("b",)),
        ("max_over_time(a[1h:5m])", [], ("a",)),
        ("absent(a)", [], None),
        ("absent_over_time(a[5m]) and b", [], ("b",)),
        ("vector(1) > 0", [], None),
        ("time() - a > 600", [], ("a",)),
        ("a > scalar(b)", ["a"], ("b",)),
        ("topk(scalar(n), a)", ["a"], ("n",)),
        ('{__name__=~"a|b"}', ["b"], None),
        ('{__name__=~"a|b"}', ["c"], ("a|b",)),
        ('{job="x"}', [], None),  # may be anything
        ("gpu:temp > 1", ["gpu:temp"], None),  # whoever recorded it
        ("gpu:temp > 1", ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP"], None),
        ("gpu:temp > 1", ["DCGM_FI_DEV_GPU_UTIL"], ("DCGM_FI_DEV_GPU_TEMP",)),
        ("gpu:temp > 1", [], ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL")),
        ("gpu:ecc > 0", [], ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL or DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",)),
        ('gpu:ecc{counted="volatile"} > 0', [], ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",)),
        ('gpu:ecc{counted!~"vol.*"} > 0', [], ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",)),
        ('a > scalar(threshold{of="heat"})', ["a"], None),
        ('a > scalar(threshold{of="hate"})', ["a"], ("threshold",)),
        ("own:total > 5", [], ("seed",)),  # it does not help itself
        ('trilens_finding{finding="stall"}', [], None),  # there is none, which is good
        ("kube_pod_status_reason", ["kube_node_info"], None),  # comes with trouble, from who is there
        ("kube_pod_status_reason", [], ("kube_pod_status_reason",)),
        ("increase(trilens_gpu_xid_total[1h])", ["trilens_gpu_xid_any_total"], None),
    ],
)
def test_what_a_rule_lacks(expr: str, names: list[str], missing: tuple[str, ...] | None) -> None:
    found = blind(expr, *names)
    assert (found.missing if found is not None else None) == missing


def test_labels_count_only_for_what_rules_record() -> None:
    """The first error of a server brings the series that counts errors: until then a rule on it is quiet."""
    asked: list[tuple[str, int]] = []

    def has(name: str, matchers: tuple[Matcher, ...]) -> bool:
        asked.append((name, len(matchers)))
        return name == "requests_total"

    text = """
groups:
- name: g
  rules:
  - {record: r, expr: requests_total}
  - {alert: A, expr: 'r{a="b"} and requests_total{code="500"}'}
"""
    assert blind_rules(groups(text), has) == []
    assert asked == [("r", 2), ("requests_total", 1)]


@pytest.mark.parametrize(
    ("expr", "names", "remedy"),
    [
        (
            "gpu:ecc > 0",
            ["DCGM_FI_DEV_GPU_TEMP"],
            "add to the counters file of dcgm-exporter:\n"
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, double-bit errors since the driver was loaded",
        ),
        (
            "gpu:ecc > 0",
            [],
            "have dcgm-exporter scraped, or run `trilens agent` on the GPU nodes (docs/scraping.md)",
        ),
        (
            '{__name__=~"DCGM_FI_DEV_(CLOCK_THROTTLE|CLOCKS_EVENT)_REASONS"} > 0',
            ["DCGM_FI_DEV_GPU_TEMP"],
            "add to the counters file of dcgm-exporter:\n"
            "DCGM_FI_DEV_CLOCKS_EVENT_REASONS, gauge, why clocks are held down (bit mask)",
        ),
        (
            "training_loss > 5",
            [],
            "no program tells it: it does not use the SDK, does not log it, or is not scraped (docs/sdk.md)",
        ),
        (
            "trilens_gpu_answers == 0",
            [],
            "run `trilens agent` on the GPU nodes and have it scraped (docs/agent.md)",
        ),
        ("anything_else or more", [], "nothing that is scraped has anything_else or more"),
    ],
)
def test_what_to_do(expr: str, names: list[str], remedy: str) -> None:
    found = blind(expr, *names)
    assert found is not None
    assert found.remedy.text == remedy


@pytest.mark.parametrize(
    ("expr", "names", "inputs"),
    [
        ("gpu:ecc > 0", [], ("GPUs",)),
        ("gpu:ecc > 0", ["DCGM_FI_DEV_GPU_TEMP"], ("counters of dcgm-exporter",)),
        ("trilens_gpu_answers == 0 and training_loss > 5", [], ("trilens agent", "training programs")),
        ("training_loss > 5 and trilens_stalled", [], ("training programs",)),
        ("absent(up) == 1 or up", [], None),
        ("anything_else or more", [], ("something else",)),
    ],
)
def test_whose_word_it_waits_for(expr: str, names: list[str], inputs: tuple[str, ...] | None) -> None:
    found = blind(expr, *names)
    assert (found.remedy.inputs if found is not None else None) == inputs


def test_every_field_that_the_shipped_rules_read_is_in_the_table() -> None:
    used = {name for file in rule_files() for name in re.findall(r"\bDCGM_\w+[A-Z]\b", file.read_text())}
    assert used - COUNTERS.keys() == set()


def test_lines_are_of_the_type_that_the_exporter_gives_them() -> None:
    known: dict[str, set[str]] = {}
    for name in ("default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv"):
        for line in require_corpus("dcgm", name).read_text().splitlines():
            if found := re.match(r"#?\s*(DCGM_\w+)\s*,\s*(gauge|counter)\s*,", line):
                known.setdefault(found[1], set()).add(found[2])
    assert len(known.keys() & COUNTERS.keys()) > 30
    assert [n for n, counter in COUNTERS.items() if counter.kind not in known.get(n, counter.kind)] == []
    assert counters_line("DCGM_FI_DEV_SOMETHING") == "DCGM_FI_DEV_SOMETHING, gauge, DCGM_FI_DEV_SOMETHING"


def test_on_a_default_exporter_the_shipped_rules_say_which_lines_to_add() -> None:
    """Alerts on each recorded GPU series: those of fields that the default file leaves out are blind."""
    default = {
        found[1]
        for line in require_corpus("dcgm", "default-counters.csv").read_text().splitlines()
        if (found := re.match(r"(DCGM_\w+)\s*,", line))
    }
    pack = [
        group
        for file in rule_files()
        if file.name == "gpu.yml"
        for group in parse_rules(file.read_text(), Path(file.name), timedelta(minutes=1))
    ]
    off = ("trilens:ecc_double_bit:total", "trilens:sm_active:ratio", "trilens:gpu_throttled:bool")
    on = ("trilens:gpu_temperature:celsius", "trilens:pcie_replays:total", "trilens:gpu_power:watts")
    text = "groups:\n- name: t\n  rules:\n" + "".join(
        f"  - {{alert: 'A{k}', expr: '{name} > 0'}}\n" for k, name in enumerate(off + on)
    )
    found = blind_rules([*pack, *groups(text)], there(*default))
    assert [one.rule.expr for one in found] == [f"{name} > 0" for name in off]
    assert all(
        one.remedy.text.startswith("add to the counters file of dcgm-exporter:\nDCGM_") for one in found
    )
