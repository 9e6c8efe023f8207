"""/api/v1/rules as Prometheus answers it, the settings behind it, and a server that evaluates."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from rules_at_work import groups
from servers import until
from trilens.alert.evaluation import new_states
from trilens.model.errors import ConfigError
from trilens.rules import rule_files
from trilens.serve.rules import readable_rules, rule_groups, rule_metrics
from trilens.settings.load import load_settings
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.alert import Alert

TEXT = """\
groups:
- name: a
  interval: 30s
  limit: 7
  rules:
  - {record: 'x:sum', expr: 'sum(x)', labels: {by: rule}}
  - {alert: Hot, expr: 'x > 1', for: 5m, annotations: {summary: hot}}
- name: b
  rules:
  - {record: y, expr: x}
"""


@pytest.fixture(scope="module")
def rules() -> Iterator[Any]:
    api = Api()
    api.rules = new_states(groups(TEXT))
    first = api.rules[0].rules[0]
    first.health, first.last_error, first.evaluation_s = "err", "too large", 0.25
    first.last_evaluation_ms = api.rules[0].last_evaluation_ms = 1_700_000_000_123
    with running(api.build()) as url, httpx.Client(base_url=f"{url}/api/v1") as client:
        yield lambda *params: client.get("/rules", params=list(params)).json()


def test_alerts_by_the_thousand_hold_up_no_other_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def active(_states: object) -> list[Alert]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return []

    monkeypatch.setattr("trilens.serve.rules.active_alerts", active)
    with running(Api().build()) as url:
        assert httpx.get(f"{url}/api/v1/alerts").json()["data"] == {"alerts": []}


def test_groups_and_rules_as_prometheus_tells_them(rules: Any) -> None:
    first, second = rules()["data"]["groups"]
    assert first == {
        "name": "a",
        "file": "rules.yml",
        "interval": 30,
        "limit": 7,
        "evaluationTime": 0,
        "lastEvaluation": "2023-11-14T22:13:20.123Z",
        "rules": [
            {
                "name": "x:sum",
                "query": "sum(x)",
                "labels": {"by": "rule"},
                "health": "err",
                "lastError": "too large",
                "evaluationTime": 0.25,
                "lastEvaluation": "2023-11-14T22:13:20.123Z",
                "type": "recording",
            },
            {
                "name": "Hot",
                "query": "x > 1",
                "labels": {},
                "health": "unknown",
                "evaluationTime": 0,
                "lastEvaluation": "0001-01-01T00:00:00Z",
                "type": "alerting",
                "state": "inactive",
                "duration": 300,
                "keepFiringFor": 0,
                "annotations": {"summary": "hot"},
                "alerts": [],
            },
        ],
    }
    assert (second["name"], second["interval"]) == ("b", 60)


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ([("type", "record")], ["x:sum", "y"]),
        ([("type", "alert")], ["Hot"]),
        ([("rule_name[]", "y"), ("rule_name[]", "Hot")], ["Hot", "y"]),
        ([("rule_group[]", "b")], ["y"]),
        ([("file[]", "rules.yml"), ("rule_name[]", "y")], ["y"]),
        ([("file[]", "other.yml")], []),
        ([("match[]", '{by=~"r.+"}')], ["x:sum"]),
        ([("match[]", '{by="x"}'), ("match[]", '{by="rule"}')], ["x:sum"]),
    ],
)
def test_only_what_was_asked_for(rules: Any, params: list[tuple[str, str]], names: list[str]) -> None:
    found = rules(*params)["data"]["groups"]
    assert [rule["name"] for group in found for rule in group["rules"]] == names


def test_a_type_nobody_knows_is_refused(rules: Any) -> None:
    answer = rules(("type", "other"))
    assert (answer["status"], answer["errorType"]) == ("error", "bad_data")
    assert answer["error"] == 'invalid parameter "type": not supported value "other"'


def settings(folder: Path, text: str) -> Any:
    file = folder / "trilens.yaml"
    file.write_text(text)
    return load_settings(file, environ={})


def test_files_are_found_beside_the_settings(tmp_path: Path) -> None:
    tmp_path /= "lab[1]"  # which a pattern would take for lab1
    (tmp_path / "rules").mkdir(parents=True)
    for name in ("b", "a"):
        (tmp_path / "rules" / f"{name}.yml").write_text(f"groups: [{{name: {name}}}]")
    text = "rules: {builtin: false, evaluation_interval: 15s, files: [rules/*.yml, rules/a.yml, more/*.yml]}"
    found = rule_groups(settings(tmp_path, text))
    assert [(group.name, group.interval_ms) for group in found] == [("a", 15_000), ("b", 15_000)]
    anywhere = tmp_path.parent / "lab*" / "rules" / "a.yml"
    absolute = rule_groups(settings(tmp_path, f"rules: {{builtin: false, files: ['{anywhere}']}}"))
    assert [group.file for group in absolute] == [str(tmp_path / "rules" / "a.yml")]
    with pytest.raises(ConfigError, match=re.escape("more/x.yml")):
        rule_groups(settings(tmp_path, "rules: {files: [more/x.yml]}"))
    (tmp_path / "rules" / "b.yml").write_text("groups: [{name: b, rules: [{alert: b}]}, {name: c}]")
    found, troubles = readable_rules(settings(tmp_path, text))
    assert [group.name for group in found] == ["a", "c"]
    assert [trouble.where for trouble in troubles] == [f"{tmp_path}/rules/b.yml:1:28"]


def test_the_shipped_rules_are_evaluated_unless_another_server_does(tmp_path: Path) -> None:
    files = {group.file for group in rule_groups(settings(tmp_path, ""))}
    assert files == {f"trilens/rules/{entry.name}" for entry in rule_files()}
    assert rule_groups(settings(tmp_path, "rules: {builtin: false}")) == []
    assert rule_groups(settings(tmp_path, "source: {url: 'http://127.0.0.1:1'}")) == []
    with pytest.raises(ConfigError, match=r"rules\.files is set"):
        settings(tmp_path, "source: {url: 'http://127.0.0.1:1'}\nrules: {files: [a.yml]}")


def test_every_metric_of_the_rules_is_documented() -> None:
    written = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    for metric in rule_metrics([]):
        name = metric.name + ("_total" if metric.type == "counter" else "")
        assert f"`{name}`" in written


def test_a_server_evaluates_reloads_and_ends(tmp_path: Path) -> None:
    rules, bad = tmp_path / "rules.yml", tmp_path / "bad.yml"
    rules.write_text("groups: [{name: g, interval: 200ms, rules: [{record: 'a:one', expr: 'vector(1)'}]}]")
    bad.write_text(
        "groups:\n- {name: x, rules: [{alert: X, expr: 'up ==='}]}\n"
        "- {name: y, interval: 200ms, rules: [{alert: Y, expr: 'a:one > 0',\n"
        "    annotations: {at: '{{ $externalURL }}'}}]}\n"
    )
    (tmp_path / "trilens.yaml").write_text(
        "rules: {builtin: false, files: [bad.yml, rules.yml]}\nagents: {this_machine: 'off'}\n"
        "server: {external_url: 'https://trilens.example/'}\n"
    )
    with (
        server(tmp_path, "--config", str(tmp_path / "trilens.yaml")) as (url, _),
        httpx.Client(base_url=url) as client,
    ):

        def shown(metric: str) -> bool:
            answer = client.get("/api/v1/query", params={"query": metric}).json()
            return bool(answer["data"]["result"])

        until(lambda: shown("a:one"), "the rule was not evaluated")
        text = client.get("/metrics").text
        assert re.search(r'trilens_rule_group_iterations_total\{rule_group="[^"]*rules.yml;g"\} [1-9]', text)
        until(lambda: shown('ALERTS{alertname="Y"}'), "the alert does not fire")
        (alert,) = client.get("/api/v1/alerts").json()["data"]["alerts"]
        assert (alert["state"], alert["annotations"]) == ("firing", {"at": "https://trilens.example"})
        (unread,) = client.get("/readyz").json()["rules"]["unread"]
        assert unread.startswith(f"{bad}:2:44: groups[0].rules[0].expr: ")
        bad.write_text("groups: []")
        rules.write_text(rules.read_text().replace("vector(1)", "vector("))
        refused = client.post("/-/reload")
        assert refused.status_code == 400
        assert f"{rules}:1:" in refused.text
        assert shown("a:one")
        rules.write_text(
            "groups: [{name: g, interval: 200ms, rules: [{record: 'b:one', expr: 'vector(1)'}]}]"
        )
        assert client.post("/-/reload").status_code == 200
        assert "rules" not in client.get("/readyz").json()
        assert not shown("a:one")
        until(lambda: shown("b:one"), "the new rule was not evaluated")
