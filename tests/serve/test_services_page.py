"""/api/services over HTTP, from recorded series: figures, objectives, what is untold, curves."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.requests import Request

from memory_api import Api, running
from trilens.alert.slo.file import read_slo_file
from trilens.model.identity import LOCAL
from trilens.promql.memory import MemorySource
from trilens.serve.app import build_app
from trilens.serve.openapi import document
from trilens.serve.own_queries import EmbeddedQueries, Matrix, Times
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.services import ObjectivesInForce, ServicesApi
from trilens.serve.pages.services_curves import MOST_POINTS, times_of
from trilens.serve.routes import IDENTITY
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Ask = Callable[..., httpx.Response]

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
CHAT = {"cluster": "lab", "namespace": "ml", "workload": "chat", "kind": "Deployment", "team": "apps"}
TOLD = {**CHAT, "job": "vllm", "server": "vllm", "model": "llama", "attempt": "1"}
SLOS = """
slos:
- name: chat-latency
  description: People wait for it.
  service: {namespace: ml, workload: chat}
  indicator: latency
  threshold: 2s
  objective: 99
- name: nobody
  service: {namespace: ml, workload: gone}
  indicator: errors
  objective: 99.9
"""


def recorded() -> MemorySource:
    source = MemorySource()

    def tell(metric: str, labels: dict[str, str], value: float) -> None:
        moments = range(NOW_MS - 4 * HOUR_MS, NOW_MS + 1, 30_000)
        source.add({"__name__": metric, **labels}, [(t_ms, value) for t_ms in moments])

    for model, requests, p95 in (("llama", 6.0, 3.5), ("mistral", 2.0, 1.5)):
        own = {**TOLD, "model": model}
        tell("trilens:inference_requests:per_second", own, requests)
        tell("trilens:inference_request_duration:seconds", {**own, "quantile": "0.95"}, p95)
        tell("trilens:inference_queue:count", own, requests / 2)
    tell("trilens:inference_running:count", TOLD, 12)
    tell("trilens:inference_tokens:per_second", {**TOLD, "token": "prompt"}, 600)
    tell("trilens:inference_tokens:per_second", {**TOLD, "token": "completion"}, 400)
    tell("trilens:inference_up:ratio", {**CHAT, "job": "vllm"}, 0.5)
    tell("trilens:inference_server_known:info", {**CHAT, "job": "vllm", "instance": "a"}, 1)
    tell("trilens_workload_cost_rate_per_hour", {**CHAT, "currency": "USD"}, 28.8)
    other = {**CHAT, "workload": "train"}  # no service: nothing of it is told here
    tell("trilens_workload_cost_rate_per_hour", {**other, "currency": "USD"}, 100)
    for number in range(4):
        tell("trilens_workload_gpu_info", {**CHAT, "UUID": f"GPU-{number}", "pod": "chat-0"}, 1)
    slo = {**CHAT, "job": "vllm", "model": "llama", "slo": "chat-latency"}
    tell("trilens:slo_events:per_second", slo, 6)
    for window, bad in (("5m", 0.3), ("1h", 0.2), ("30m", 0.2), ("6h", 0.04), ("30d", 0.004)):
        tell("trilens:slo_bad:ratio", {**slo, "window": window}, bad)
    tell("trilens:slo_budget_left:ratio", slo, 0.6)
    triton = {"job": "triton", "server": "triton", "model": "resnet"}
    tell("trilens:inference_requests:per_second", triton, 100)
    tell("trilens:inference_request_duration_mean:seconds", triton, 0.02)
    tell("trilens:inference_requests:per_second", {**triton, "job": "ml/bert"}, 7)
    return source


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    file = tmp_path_factory.mktemp("slo") / "slo.yml"
    file.write_text(SLOS, encoding="utf-8")
    objectives = read_slo_file(file)
    api = Api(now_ms=lambda: NOW_MS)
    page = ServicesApi(EmbeddedQueries(recorded()), lambda: objectives, api.questions)
    with running(build_app(dataclasses.replace(api.parts(), pages=PageApis((page,))))) as url:
        yield lambda path, **params: httpx.get(f"{url}{path}", params=params)


def data(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def named(answer: httpx.Response, name: str) -> dict[str, Any]:
    (found,) = [one for one in data(answer)["services"] if one["name"] == name]
    return dict(found)


def test_models_are_added_up_and_the_slowest_counts(ask: Ask) -> None:
    chat = named(ask("/api/services"), "chat")
    assert (chat["cluster"], chat["namespace"], chat["kind"], chat["team"]) == (
        "lab",
        "ml",
        "Deployment",
        "apps",
    )
    assert (chat["requests_per_s"], chat["waiting"], chat["running"]) == (8, 4, 12)
    assert chat["latency"] == {"p50": None, "p95": 3.5, "p99": None}
    assert (chat["servers"], chat["models"], chat["replicas_up"]) == (["vllm"], ["llama", "mistral"], 0.5)


def test_what_a_thousand_requests_and_a_million_tokens_cost(ask: Ask) -> None:
    chat = named(ask("/api/services"), "chat")
    assert (chat["gpus"], chat["currency"], chat["per_hour"]) == (4, "USD", 28.8)
    assert chat["per_1k_requests"] == pytest.approx(1.0)  # 28,800 requests an hour
    assert chat["per_1m_tokens"] == pytest.approx(8.0)  # 3.6 million tokens an hour
    assert chat["per_1m_completion_tokens"] == pytest.approx(20.0)  # 1.44 million come out


def test_other_workloads_are_no_services(ask: Ask) -> None:
    assert [one["name"] for one in data(ask("/api/services"))["services"]] == ["ml/bert", "triton", "chat"]


def test_an_objective_with_its_budget_and_how_fast_that_burns(ask: Ask) -> None:
    answer = ask("/api/services")
    (slo,) = named(answer, "chat")["slos"]
    assert (slo["name"], slo["indicator"], slo["threshold_s"], slo["window"]) == (
        "chat-latency",
        "latency",
        2,
        "30d",
    )
    assert (slo["target"], slo["current"], slo["budget_left"]) == pytest.approx((0.99, 0.996, 0.6))
    assert slo["burn_rate"] == pytest.approx(20)
    assert [one["window"] for one in slo["burn"]] == ["5m", "30m", "1h", "6h"]
    assert (slo["state"], named(answer, "chat")["state"]) == ("fast", "fast")
    assert data(answer)["unmatched"] == ["nobody"]


def test_what_nobody_tells_names_the_metric_that_would(ask: Ask) -> None:
    answer = ask("/api/services")
    chat = {one["figure"]: one for one in named(answer, "chat")["untold"]}
    assert chat["ttft"]["metric"] == "vllm:time_to_first_token_seconds"
    assert (chat["errors_per_s"]["metric"], "proxy" in chat["errors_per_s"]["remedy"]) == (None, True)
    assert not {"latency", "running", "waiting", "per_hour"} & chat.keys()
    triton = {one["figure"]: one for one in named(answer, "triton")["untold"]}
    assert "histogram_latencies" in triton["ttft"]["remedy"]
    assert named(answer, "triton")["latency_mean_s"] == 0.02
    assert named(answer, "triton")["errors_per_s"] is None


def test_curves_have_a_value_for_each_moment(ask: Ask) -> None:
    span = {"from": str((NOW_MS - 6 * HOUR_MS) / 1000), "to": str(NOW_MS / 1000)}
    found = data(ask("/api/services/lab/ml/chat", **span))
    assert len(found["t_ms"]) <= MOST_POINTS
    assert (found["t_ms"][-1], found["service"]["name"]) == (NOW_MS, "chat")
    requests = found["curves"]["requests_per_s"]
    assert (len(requests), requests[0], requests[-1]) == (len(found["t_ms"]), None, 8)
    assert found["curves"]["latency_p95"][-1] == 3.5
    assert found["curves"]["per_hour"][-1] == 28.8
    (slo,) = found["slo_curves"]
    assert (slo["name"], slo["budget_left"][-1]) == ("chat-latency", 0.6)
    assert slo["burn_rate"][-1] == pytest.approx(20)
    assert [(one["model"], one["requests_per_s"]) for one in found["models"]] == [
        ("llama", 6),
        ("mistral", 2),
    ]


def test_a_long_span_takes_the_worst_between_two_points(ask: Ask) -> None:
    span = {"from": str((NOW_MS - 48 * HOUR_MS) / 1000), "to": str(NOW_MS / 1000)}
    found = data(ask("/api/services/lab/ml/chat", **span))
    assert found["step_ms"] > 300_000  # beyond what a sample is shown for
    known = [value for value in found["curves"]["latency_p95"] if value is not None]
    assert len(known) == pytest.approx(4 * HOUR_MS / found["step_ms"], abs=2)


def test_a_service_without_cluster_and_namespace(ask: Ask) -> None:
    assert data(ask("/api/services/-/-/triton"))["service"]["requests_per_s"] == 100


def test_a_service_with_the_name_that_a_pod_monitor_gives(ask: Ask) -> None:
    for written in ("ml%2Fbert", "ml/bert"):
        service = data(ask(f"/api/services/-/-/{written}"))["service"]
        assert (service["name"], service["requests_per_s"]) == ("ml/bert", 7)
    assert "/api/services/{cluster}/{namespace}/{name}" in document()["paths"]


def test_a_service_that_is_not_there(ask: Ask) -> None:
    answer = ask("/api/services/lab/ml/gone")
    assert answer.status_code == 404
    assert "nothing serves as 'gone'" in answer.json()["error"]


def test_an_earlier_moment(ask: Ask) -> None:
    assert data(ask("/api/services", at=str((NOW_MS - 9 * HOUR_MS) / 1000)))["services"] == []


@pytest.mark.parametrize("span_ms", [0, 1_000, HOUR_MS, 12 * HOUR_MS, 90 * 24 * HOUR_MS])
def test_points_are_few_and_end_at_the_end(span_ms: int) -> None:
    times = times_of(NOW_MS - span_ms, NOW_MS)
    assert times.end_ms == NOW_MS
    assert 1 <= times.moments <= MOST_POINTS


def test_objectives_are_read_anew_with_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "slo.yml"
    file.write_text(SLOS, encoding="utf-8")

    def load() -> Any:
        return load_settings(overrides={"rules.slo_files": [str(file)]}, environ={})

    settings = [load()]
    objectives = ObjectivesInForce(lambda: settings[-1])
    assert [one.name for one in objectives()] == ["chat-latency", "nobody"]
    file.write_text(SLOS.replace("nobody", "somebody"), encoding="utf-8")
    assert [one.name for one in objectives()] == ["chat-latency", "nobody"]
    settings.append(load())
    assert [one.name for one in objectives()] == ["chat-latency", "somebody"]


def test_all_who_look_share_what_was_made_after_a_look() -> None:
    asked: list[int] = []
    now_s = [100.0]

    class Counted(EmbeddedQueries):
        async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
            asked.append(times.start_ms)
            return await super().matrix(query, times, labels)

    async def look_on() -> None:
        page = ServicesApi(Counted(recorded()), list, api.questions, lambda: now_s[0])
        scope = {"type": "http", "method": "GET", "query_string": b"", "headers": [], IDENTITY: LOCAL}
        request = Request(scope, still_there)

        async def told() -> int:
            answer = await page.every(request)
            at_ms: int = json.loads(bytes(answer.body))["data"]["at_ms"]
            return at_ms

        async def looked() -> None:
            await asyncio.to_thread(page.looked)
            if page._making is not None:
                await page._making

        await asyncio.to_thread(page.looked)  # nobody has asked yet
        assert await asyncio.gather(told(), told(), told()) == [NOW_MS] * 3
        assert asked == [NOW_MS], "who comes meanwhile waits for the same"
        now_ms[0] += 5_000
        now_s[0] += 5
        assert await told() == NOW_MS
        await looked()
        assert await told() == NOW_MS + 5_000
        now_ms[0] += 13_000
        now_s[0] += 13
        assert await told() == NOW_MS + 18_000, "no look since then: it would be too old"
        now_s[0] += 31
        asked.clear()
        page.looked()
        await asyncio.sleep(0)
        assert asked == [], "nobody watches any more"

    async def still_there() -> Any:
        await asyncio.Event().wait()

    now_ms = [NOW_MS]
    api = Api(now_ms=lambda: now_ms[0])
    asyncio.run(look_on())
