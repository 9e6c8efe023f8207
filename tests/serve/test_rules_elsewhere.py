"""The rules of another server: told as it tells them, with those that are blind."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from metric_sources import prometheus
from servers import until
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.errors import SourceError
from trilens.model.labels import make_labels
from trilens.serve.app import build_app
from trilens.serve.rules import RulesApi
from trilens.serve.rules_elsewhere import RulesElsewhere
from trilens.serve.upstream import Upstream
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
groups:
- name: gpus
  interval: 1s
  rules:
  - {record: 'gpu:hot:bool', expr: DCGM_FI_DEV_GPU_TEMP > bool 80, labels: {cause: heat}}
  - {alert: Hot, expr: 'gpu:hot:bool{cause="heat"} > 0', labels: {severity: warning}}
  - {alert: Wet, expr: 'gpu:hot:bool{cause="water"} > 0'}
  - {alert: Ecc, expr: DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0}
"""


def told(**rule: Any) -> list[dict[str, Any]]:
    known = {"name": "Ecc", "query": "ecc > 0", "type": "alerting", "health": "ok", "evaluationTime": 0.1}
    return [{"file": "f", "name": "g", "interval": 60, "rules": [{**known, **rule}]}]


class Source:
    """Has no metric, and rules that may be changed."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.groups = groups

    async def rules(self) -> list[dict[str, Any]]:
        return self.groups

    async def metric_names(self, _selector: str | None, _from_ms: int, _to_ms: int) -> list[str]:
        return ["something"]


def blind_of(elsewhere: RulesElsewhere) -> dict[str, Any]:
    rules = [rule for group in elsewhere.groups() for rule in group["rules"]]
    return {rule["name"]: rule["blind"]["missing"] for rule in rules if "blind" in rule}


def test_a_real_prometheus_and_which_of_its_rules_are_blind(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(RULES, encoding="utf-8")

    async def look(url: str) -> RulesElsewhere:
        upstream = Upstream(load_settings(overrides={"source.url": url}, environ={}).source, 1_000_000)
        await upstream.start()
        elsewhere = RulesElsewhere(upstream)
        await elsewhere.look()
        await upstream.stop()
        return elsewhere

    with prometheus(tmp_path, f"rule_files: [{tmp_path}/rules.yml]\n") as url:
        now_ms = time.time_ns() // 1_000_000
        row = (make_labels({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0"}), now_ms, 50.0)
        httpx.post(f"{url}/api/v1/write", content=encode([row]), headers=HEADERS).raise_for_status()
        asked = {"query": "gpu:hot:bool"}
        until(
            lambda: bool(httpx.get(f"{url}/api/v1/query", params=asked).json()["data"]["result"]),
            "the rule has recorded",
        )
        elsewhere = asyncio.run(look(url))
    assert blind_of(elsewhere) == {
        "Wet": ("gpu:hot:bool",),
        "Ecc": ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
    }
    (family,) = elsewhere.metrics()
    assert {sample.labels["alertname"] for sample in family.samples} == {"Wet", "Ecc"}
    assert elsewhere.groups()[0]["rules"][1]["labels"] == {"severity": "warning"}


def test_what_is_in_a_dialect_of_that_server_is_told_and_not_judged() -> None:
    elsewhere = RulesElsewhere(Source(told(query="keep_last_value(ecc) default 0 > 0")))
    asyncio.run(elsewhere.look())
    (rule,) = elsewhere.groups()[0]["rules"]
    assert (rule["name"], rule["labels"]) == ("Ecc", {})
    assert blind_of(elsewhere) == {}


@pytest.mark.parametrize("groups", [[{}], ["g"], [{**told()[0], "rules": [{"name": "x"}]}]], ids=str)
def test_what_is_not_a_rule_is_a_clear_error_and_what_was_seen_stays(groups: list[Any]) -> None:
    source = Source(told())
    elsewhere = RulesElsewhere(source)
    asyncio.run(elsewhere.look())
    source.groups = groups
    with pytest.raises(SourceError, match="not Prometheus's"):
        asyncio.run(elsewhere.look())
    assert blind_of(elsewhere) == {"Ecc": ("ecc",)}


def test_they_are_answered_as_if_they_were_evaluated_here() -> None:
    groups = told(alerts=[{"state": "firing"}], state="firing", labels={"team": "a"})
    elsewhere = RulesElsewhere(Source(groups))
    asyncio.run(elsewhere.look())
    parts = Api().parts()
    rules = RulesApi(list, elsewhere=elsewhere.groups)
    app = build_app(replace(parts, prometheus=replace(parts.prometheus, rules=rules)))
    with running(app) as url:

        def asked(**params: str) -> list[dict[str, Any]]:
            found = httpx.get(f"{url}/api/v1/rules", params=params).json()["data"]["groups"]
            return [rule for group in found for rule in group["rules"]]

        (whole,) = asked()
        assert (whole["state"], whole["alerts"]) == ("firing", [{"state": "firing"}])
        assert whole["blind"]["missing"] == ["ecc"]
        assert "alerts" not in asked(exclude_alerts="true")[0]
        assert asked(type="record") == asked(**{"rule_name[]": "x"}) == asked(**{"file[]": "x"}) == []
        assert len(asked(type="alert", **{"match[]": '{team="a"}'})) == 1
