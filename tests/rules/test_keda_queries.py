"""deploy/keda: triggers as KEDA takes them, whose queries give the one element it needs, or none at all."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from memory_api import Api, running
from recording_rules import Recorder, series
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource

FOLDER = Path(__file__).parents[2] / "deploy" / "keda"
PAGE = (FOLDER.parents[1] / "docs" / "keda.md").read_text(encoding="utf-8")
OBJECTS = [
    (file.name, document)
    for file in sorted(FOLDER.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
]
SCALED = {name: document for name, document in OBJECTS if document["kind"] == "ScaledObject"}

MINUTE = 60_000
BUSY, IDLE, STUCK, ONE_LOST, ALL_LOST = (n * MINUTE for n in (3, 7, 9, 11, 13))  # when it is asked


class Server(NamedTuple):
    """What two replicas tell: of each metric the value while busy, a counter's by the second."""

    gauges: dict[str, float]
    counters: dict[str, float]
    waiting: str
    running: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def histogram(name: str) -> dict[str, float]:
    """Ten a second, all between 2 and 4 s."""
    return {f'{name}_bucket le="2.0"': 0.0, f'{name}_bucket le="4.0"': 10.0, f'{name}_bucket le="+Inf"': 10.0}


MODEL = (("model_name", "llama"),)
SERVERS = {
    "vllm.yaml": Server(
        {"vllm:num_requests_running": 4, "vllm:num_requests_waiting": 6},
        {"vllm:request_success_total": 10, **histogram("vllm:e2e_request_latency_seconds")},
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        MODEL,
    ),
    "sglang.yaml": Server(
        {"sglang:num_running_reqs": 4, "sglang:num_queue_reqs": 6},
        {"sglang:num_requests_total": 10, **histogram("sglang:e2e_request_latency_seconds")},
        "sglang:num_queue_reqs",
        "sglang:num_running_reqs",
        MODEL,
    ),
    "tgi.yaml": Server(
        {"tgi_batch_current_size": 4, "tgi_queue_size": 6},
        {"tgi_request_count": 10, **histogram("tgi_request_duration")},
        "tgi_queue_size",
        "tgi_batch_current_size",
    ),
    "triton.yaml": Server(
        {"nv_inference_pending_request_count": 6},
        {
            "nv_inference_request_success": 10,
            "nv_inference_request_failure": 0,
            "nv_inference_queue_duration_us": 10 * 398_000,
        },
        "nv_inference_pending_request_count",
        labels=(("model", "yolo"), ("version", "1")),
    ),
    "trilens-serving.yaml": Server(
        {"inference_requests_running": 4, "inference_queue_depth": 6},
        {"inference_requests_total": 10, **histogram("inference_request_duration_seconds")},
        "inference_queue_depth",
        "inference_requests_running",
        (("model", "m"), ("version", "1")),
    ),
}


Answers = dict[tuple[str, str, int], list[float]]


@pytest.fixture(scope="module")
def source() -> MemorySource:
    return MemorySource()


@pytest.fixture(scope="module")
def answers(source: MemorySource) -> Answers:
    """By file, trigger and moment what a query gives: all servers live through the same times."""
    recorder = Recorder(source, "serving.yml", "serving-health.yml")
    wanted = {BUSY, IDLE, STUCK, ONE_LOST, ALL_LOST}
    found = {}
    counts: dict[Any, float] = {}
    for at_ms in range(0, ALL_LOST + 1, MINUTE):
        for file, server in SERVERS.items():
            for replica in range(2):
                tell(source, counts, SCALED[file]["metadata"], server, replica, at_ms)
        recorder.evaluate(at_ms)
        for file, scaled in SCALED.items() if at_ms in wanted else ():
            for trigger in scaled["spec"]["triggers"]:
                answer = series(Engine(source).instant(trigger["metadata"]["query"], at_ms, QueryGuard()))
                assert set(answer) <= {frozenset()}, "labels that KEDA has no use for"
                found[file, trigger["name"], at_ms] = list(answer.values())
    return found


def tell(
    source: MemorySource,
    counts: dict[Any, float],
    of: dict[str, str],
    server: Server,
    replica: int,
    at_ms: int,
) -> None:
    place = {"cluster": "main", "namespace": of["namespace"], "pod": f"{of['name']}-{replica}"}
    target = {**place, "job": "servers", "instance": f"{of['name']}-{replica}:8000"}
    source.add(
        {"__name__": "trilens_workload_pod_info", **place, "workload": of["name"], "kind": "Deployment"},
        [(at_ms, 1)],
    )
    lost = at_ms > ONE_LOST or (at_ms > STUCK and replica == 1)
    busy, stuck = at_ms <= BUSY, IDLE < at_ms <= STUCK
    source.add({"__name__": "up", **target}, [(at_ms, 0.0 if lost else 1.0)])
    for name, value in server.gauges.items():
        # A stuck one works on requests that never end; of those that are left when one is lost, six wait.
        told = value if busy or (stuck and name == server.running) else 0.0
        if at_ms > STUCK and name == server.waiting:
            told = 6.0
        source.add(
            {"__name__": name, **target, **dict(server.labels)}, [(at_ms, STALE_NAN if lost else told)]
        )
    for name, rate in server.counters.items():
        metric, _, bound = name.partition(" le=")
        key = (metric, bound, of["name"], replica)
        counts[key] = counts.get(key, 0.0) + (60 * rate if busy else 0.0)
        labels = {**dict(server.labels), **({"le": bound.strip('"')} if bound else {})}
        source.add({"__name__": metric, **target, **labels}, [(at_ms, STALE_NAN if lost else counts[key])])


each = pytest.mark.parametrize("file", sorted(SERVERS))


@each
def test_a_busy_service_answers_with_one_element(file: str, answers: Answers) -> None:
    slow = "queue-time" if file == "triton.yaml" else "p99"
    assert answers[file, slow, BUSY] == [pytest.approx(0.398 if slow == "queue-time" else 3.98)]
    assert answers[file, "queue", BUSY] == [12]


@each
def test_an_idle_service_may_be_scaled_down(file: str, answers: Answers) -> None:
    slow = "queue-time" if file == "triton.yaml" else "p99"
    assert answers[file, slow, IDLE] == [0]
    assert answers[file, "queue", IDLE] == [0]


@pytest.mark.parametrize("file", sorted(set(SERVERS) - {"triton.yaml"}))  # it does not tell what it works on
def test_one_that_ends_no_request_is_not_idle(file: str, answers: Answers) -> None:
    assert answers[file, "p99", STUCK] == []


@each
def test_a_replica_that_is_lost_counts_as_one_that_is_not(file: str, answers: Answers) -> None:
    assert answers[file, "queue", ONE_LOST] == [12]


@each
def test_a_service_that_is_lost_gives_no_answer(file: str, answers: Answers) -> None:
    asked = [value for (name, _, at_ms), value in answers.items() if (name, at_ms) == (file, ALL_LOST)]
    assert asked == [[], []]


@pytest.mark.usefixtures("answers")
def test_keda_is_answered(source: MemorySource) -> None:
    """As its scaler asks: a time of whole seconds, the token, and what it reads of the answer."""
    trigger, _ = SCALED["vllm.yaml"]["spec"]["triggers"]
    api = Api(source=source, overrides={"server.token": "secret"})
    with running(api.build()) as url, httpx.Client(base_url=url) as client:

        def ask(at_ms: int, token: str = "secret") -> httpx.Response:
            time = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return client.get(
                "/api/v1/query",
                params={"query": trigger["metadata"]["query"], "time": time},
                headers={"Authorization": f"Bearer {token}"},
            )

        assert ask(BUSY, token="wrong").status_code == 401
        busy = ask(BUSY).json()
        assert (busy["status"], busy["data"]["resultType"]) == ("success", "vector")
        (element,) = busy["data"]["result"]
        assert element["metric"] == {}
        assert float(element["value"][1]) == pytest.approx(3.98)
        assert isinstance(element["value"][1], str)
        assert ask(ALL_LOST).json()["data"]["result"] == []


@each
def test_triggers_are_as_keda_takes_them(file: str) -> None:
    scaled = SCALED[file]
    spec = scaled["spec"]
    assert spec["scaleTargetRef"]["name"] == scaled["metadata"]["name"]
    assert spec["minReplicaCount"] >= 1
    kinds = {trigger["name"]: trigger["metricType"] for trigger in spec["triggers"]}
    assert kinds.pop("queue") == "AverageValue"
    assert set(kinds.values()) == {"Value"}
    for trigger in spec["triggers"]:
        metadata = trigger["metadata"]
        assert trigger["type"] == "prometheus"
        assert all(isinstance(value, str) for value in metadata.values()), "KEDA takes text alone"
        assert metadata["ignoreNullValues"] == "false"
        assert math.isfinite(float(metadata["threshold"]))
        assert metadata["authModes"] == "bearer"
        assert trigger["authenticationRef"] == {"name": "trilens"}


def test_the_token_is_found() -> None:
    secret, authentication = (document for name, document in OBJECTS if name == "authentication.yaml")
    (reference,) = authentication["spec"]["secretTargetRef"]
    assert reference == {"parameter": "bearerToken", "name": secret["metadata"]["name"], "key": "token"}
    assert "token" in secret["stringData"]


def test_the_page_has_every_file() -> None:
    assert set(SERVERS) == set(SCALED)
    for name in {name for name, _ in OBJECTS}:
        assert f"deploy/keda/{name}" in PAGE
