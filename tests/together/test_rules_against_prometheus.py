"""One rule file, the same samples: what Prometheus records is what Trilens records, to the bit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
import yaml

from metric_sources import prometheus
from rules_at_work import Fleet, groups
from servers import until
from trilens.alert.rule import RecordingRule
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN
from trilens.promql.engine import Engine
from trilens.rules import rule_files
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.model.labels import Labels

RULES: list[dict[str, Any]] = [
    {"record": "t:power:sum", "expr": "sum by (node) (power)"},
    {
        "record": "t:power:share",
        "expr": "power / on (node) group_left () t:power:sum",
        "labels": {"kind": "share"},
    },
    {"record": "t:power:high", "expr": "power > 150"},  # comes and goes
    {"record": "t:power:rate", "expr": "rate(energy[4s])", "labels": {"gpu": ""}},
    {"record": "t:power:top", "expr": "topk by (node) (1, power)"},
    {"record": "t:scalar", "expr": "scalar(sum(power)) > bool 100"},
    {"record": "t:wrong", "expr": "power + on (node) power"},
    {"record": "t:same", "expr": "power", "labels": {"gpu": ""}},
    {"record": "t:own:total", "expr": "t:own:total + 1 or sum(power) * 0"},
]
PASSES = 5
LATER = 3
SHOWN = '{__name__=~"t:.*"}'
OF_GPUS = '{__name__=~"trilens:.*", __name__!~"trilens:inference_.*"}'
OF_SERVERS = '{__name__=~"trilens:inference_.*"}'


def rule_text() -> str:
    pack = [
        {**group, "interval": "500ms"}
        for entry in rule_files()
        if entry.name in ("gpu.yml", "serving.yml")
        for group in yaml.safe_load(entry.read_text())["groups"]
    ]
    return yaml.safe_dump({"groups": [{"name": "own", "interval": "500ms", "rules": RULES}, *pack]})


def samples(start_ms: int) -> list[tuple[Labels, int, float]]:
    """Two samples a second for a minute, from before the first pass until after the last."""
    rows = []
    for k in range(120):
        t_ms = start_ms + 500 * k
        for gpu in range(4):
            place = {"node": f"n{gpu // 2}", "gpu": str(gpu)}
            ends = gpu == 3 and k > 28
            if ends and k > 29:
                continue
            power = STALE_NAN if ends else 100 + 100 * float((k // 3 + gpu) % 2) + 0.1 * k
            rows.append((make_labels({"__name__": "power", **place}), t_ms, power))
            rows.append((make_labels({"__name__": "energy", **place}), t_ms, 0.3 * k * (gpu + 1)))
            dcgm = {
                "UUID": f"GPU-{gpu}",
                "gpu": str(gpu),
                "Hostname": "n",
                "modelName": "H100",
                "pod": f"p-{gpu}",
            }
            for field, value in (("GPU_UTIL", 50.0), ("POWER_USAGE", power), ("FB_USED", 7.0 * k)):
                labels = make_labels({"__name__": f"DCGM_FI_DEV_{field}", "namespace": "ml", **dcgm})
                rows.append((labels, t_ms, STALE_NAN if ends else value))
        pod = {
            "cluster": "east",
            "namespace": "ml",
            "pod": "p-0",
            "workload": "w",
            "attempt": str(1 + k // 30),
        }
        rows.append((make_labels({"__name__": "trilens_workload_pod_info", **pod}), t_ms, 1.0))
        rows += served(t_ms, k)
    return rows


def served(t_ms: int, k: int) -> list[tuple[Labels, int, float]]:
    """Two servers, one of them in a pod of the workload, the other one in none."""
    vllm = {"namespace": "ml", "pod": "p-0", "job": "vllm", "instance": "a:8000", "model_name": "llama"}
    triton = {"job": "triton", "instance": "b:8002", "model": "resnet", "version": "1"}
    told = [
        ({"__name__": "vllm:num_requests_running", **vllm}, 3.0 + k % 5),
        ({"__name__": "vllm:gpu_cache_usage_perc", **vllm}, 0.01 * (k % 90)),
        ({"__name__": "vllm:prompt_tokens_total", **vllm}, 100.0 * k),
        ({"__name__": "vllm:request_success_total", "finished_reason": "stop", **vllm}, 2.0 * k),
        ({"__name__": "nv_inference_request_success", **triton}, 3.0 * k),
        ({"__name__": "nv_inference_request_failure", **triton}, 1.0 * k),
        ({"__name__": "nv_inference_request_duration_us", **triton}, 70_000.0 * k),
    ]
    for bound, share in (("0.1", 0.7), ("0.5", 1.6), ("+Inf", 2.0)):
        bucket = {"__name__": "vllm:time_to_first_token_seconds_bucket", "le": bound, **vllm}
        told.append((bucket, share * k))
    return [(make_labels(labels), t_ms, value) for labels, value in told]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = Store.open(StoreOptions(data_dir=tmp_path / "ours"), upkeep=False)
    yield opened
    opened.close()


def test_the_same_rules_record_the_same_series(tmp_path: Path, store: Store) -> None:
    text = rule_text()
    (tmp_path / "rules.yml").write_text(text)
    rows = samples(time.time_ns() // 1_000_000 - 12_000)
    with prometheus(tmp_path) as url:  # the samples first: no pass may see half of them
        answer = httpx.post(f"{url}/api/v1/write", content=encode(rows), headers=HEADERS)
        assert answer.status_code == 204, answer.text
    with (
        prometheus(tmp_path, "rule_files: [rules.yml]\n") as url,
        httpx.Client(base_url=f"{url}/api/v1", timeout=30) as real,
    ):

        def asked(query: str, at_ms: int) -> list[dict[str, Any]]:
            found = real.get("/query", params={"query": query, "time": f"{at_ms / 1000:.3f}"}).json()
            result: list[dict[str, Any]] = found["data"]["result"]
            return result

        def passes() -> list[int]:
            found = asked("t:power:sum[1m]", time.time_ns() // 1_000_000)
            return sorted({round(1000 * t) for one in found for t, _ in one["values"]})

        until(lambda: len(passes()) >= PASSES + LATER, "Prometheus does not evaluate")
        moments = passes()[:-LATER]  # the last ones may not be through yet
        end_ms = moments[-1]
        told = {
            rule["name"]: rule
            for group in real.get("/rules").json()["data"]["groups"]
            for rule in group["rules"]
        }
        theirs = {
            selected: {
                (make_labels(one["metric"]), round(1000 * t)): float(value)
                for one in asked(f"{selected}[1m]", end_ms)
                for t, value in one["values"]
            }
            for selected in (SHOWN, OF_GPUS, OF_SERVERS)
        }
        shown = {at: {make_labels(one["metric"]) for one in asked(SHOWN, at)} for at in moments}
    fleet = Fleet(store)
    for labels, t_ms, value in rows:
        store.append(np.array([store.series(labels)]), np.array([t_ms]), np.array([value]))
    manager = fleet.rules(*groups(text))
    own, gpu, serving = manager.states()
    for state, selected in ((own, SHOWN), (gpu, OF_GPUS), (serving, OF_SERVERS)):
        for at_ms in sorted({t for _, t in theirs[selected]}):
            manager.evaluate(state, at_ms)
        found = Engine(store).instant(f"{selected}[1m]", end_ms, QueryGuard())
        assert found.samples is not None
        t, v, offsets = found.samples
        ours = {
            (make_labels(found.labels.labels(row)), int(t[k])): float(v[k])
            for row in range(len(found.labels))
            for k in range(offsets[row], offsets[row + 1])
        }
        assert len(ours) > 20
        # Of a rate, versions of Prometheus differ in the last bit.
        assert ours == (pytest.approx(theirs[selected]) if selected == OF_SERVERS else theirs[selected])
    assert {rule.health for rule in (*gpu.rules, *serving.rules)} == {"ok"}
    assert {at: set(fleet.shows(SHOWN, at)) for at in moments} == shown  # series that ended are not there
    assert len({frozenset(series) for series in shown.values()}) > 1  # and some did
    for rule in own.rules:
        assert isinstance(rule.rule, RecordingRule)
        said = told[rule.rule.record]
        assert (rule.health == "ok") == (said["health"] == "ok"), said
        if rule.rule.record == "t:same":
            assert rule.last_error == said["lastError"]
