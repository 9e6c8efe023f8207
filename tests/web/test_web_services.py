"""Services as people use them: on the demo, and with answers that it does not give."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    Usable = Callable[[Page], None]

NOW_MS = 1_790_000_000_000
NOTHING: dict[str, None] = {"p50": None, "p95": None, "p99": None}
MARKUP = "<img src=x onerror=document.title='bad'>"
CHAT: dict[str, Any] = {
    "cluster": "lab",
    "namespace": "ml",
    "name": MARKUP,
    "kind": "Deployment",
    "team": "apps",
    "servers": ["vllm"],
    "models": ["llama"],
    "replicas_up": 1,
    "requests_per_s": 8,
    "errors_per_s": None,
    "errors_ratio": None,
    "errors_told_by": None,
    "latency": {"p50": 1.5, "p95": 3.5, "p99": 6},
    "latency_mean_s": None,
    "ttft": NOTHING,
    "per_token": NOTHING,
    "queue_time": NOTHING,
    "running": 12,
    "waiting": 40,
    "prompt_tokens_per_s": None,
    "completion_tokens_per_s": None,
    "cache_used": None,
    "gpus": 4,
    "currency": "USD",
    "per_hour": 28.8,
    "per_1k_requests": 1,
    "per_1m_tokens": 0.43,
    "per_1m_completion_tokens": 3.1,
    "state": "fast",
    "slos": [
        {
            "name": "chat-latency",
            "description": "",
            "indicator": "latency",
            "threshold_s": 2,
            "target": 0.99,
            "window": "30d",
            "model": "llama",
            "state": "fast",
            "current": 0.97,
            "budget_left": -2,
            "burn_rate": 20,
            "burn": [{"window": "1h", "rate": 20}],
        }
    ],
    "untold": [{"figure": "ttft", "metric": "vllm:time_to_first_token_seconds", "remedy": "have it scraped"}],
}
IDLE = {**CHAT, "name": "idle", "state": "", "slos": [], "waiting": 0}


def answer(page: Page, pattern: str, data: Any) -> None:
    def give(route: Route) -> None:
        route.fulfill(
            status=200, content_type="application/json", body=json.dumps({"status": "success", "data": data})
        )

    page.route(re.compile(pattern), give)


def detail(service: dict[str, Any]) -> dict[str, Any]:
    times = [NOW_MS + 60_000 * at for at in range(3)]
    return {
        "service": service,
        "models": [],
        "from_ms": times[0],
        "to_ms": times[-1],
        "step_ms": 60_000,
        "t_ms": times,
        "curves": {"latency_p99": [1, None, 6], "waiting": [0, 10, 40]},
        "slo_curves": [],
    }


def test_services_say_what_is_promised_and_how_it_is_kept(page: Page, usable: Usable) -> None:
    answer(page, "/api/services$", {"at_ms": NOW_MS, "services": [IDLE, CHAT], "unmatched": ["nobody"]})
    answer(page, "/api/services/lab/ml/idle", detail(IDLE))
    answer(page, "/api/services/lab/ml/%3C", detail(CHAT))
    page.goto("/services")
    expect(page.get_by_role("heading", level=1)).to_contain_text("burns its error budget fast")
    panel = page.locator(".card", has_text="What is promised")
    expect(panel).to_contain_text("99 % of the requests take no longer than 2 s")
    expect(panel).to_contain_text("spent 3×")
    priced = "$0.43 per million tokens in and out, $3.10 per million that come out"
    expect(page.get_by_text(priced)).to_be_visible()
    expect(page.get_by_text("vllm:time_to_first_token_seconds")).to_be_visible()
    expect(page.get_by_text("No service matches the objective")).to_contain_text("nobody")
    usable(page)
    page.get_by_role("link", name="idle").click()
    expect(page).to_have_url(re.compile("service=lab%2Fml%2Fidle"))
    expect(panel).to_contain_text("workload: idle")  # how to write an objective
    assert "bad" not in page.title()


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["ok", "ok"], "All objectives are met."),
        (["ok", "unmeasured"], "1 of 2 objectives are met; one is not measured."),
        (["unmeasured", "unmeasured"], "Whether objectives are met is not known: nothing is measured yet."),
    ],
)
def test_an_objective_that_is_not_measured_is_not_said_to_be_met(
    page: Page, states: list[str], said: str
) -> None:
    slos = [{**CHAT["slos"][0], "name": f"slo-{i}", "state": state} for i, state in enumerate(states)]
    service = {**IDLE, "state": "unmeasured" if "unmeasured" in states else "ok", "slos": slos}
    answer(page, "/api/services$", {"at_ms": NOW_MS, "services": [service, IDLE], "unmatched": []})
    answer(page, "/api/services/lab/ml/idle", detail(service))
    page.goto("/services")
    expect(page.get_by_role("heading", level=1)).to_have_text(said)


def test_a_service_of_the_demo_is_found_and_shown_to_others(page: Page) -> None:
    page.goto("/services")
    rows = page.get_by_role("group", name="Services", exact=True).locator("tbody tr")
    name = rows.last.get_by_role("link").inner_text().split()[0]
    rows.last.locator("td").last.click()
    expect(page).to_have_url(re.compile(f"service=demo.*{name}"))
    page.get_by_role("searchbox").fill(name)
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_role("region", name=name)).to_contain_text(re.compile(r"\$[\d.]+/h"))
    expect(page.get_by_role("img", name="Latency over time")).to_be_visible()


def test_no_service_says_how_to_have_one(page: Page) -> None:
    answer(page, "/api/services$", {"at_ms": NOW_MS, "services": [], "unmatched": []})
    page.goto("/services")
    expect(page.get_by_text("trilens.serving.Middleware")).to_be_visible()
