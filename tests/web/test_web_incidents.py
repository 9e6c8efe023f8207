"""Incidents, alerts and services as people use them: on the demo, and with answers that it does not give."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Page, Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    Axe = Callable[[Page], None]
    Shot = Callable[[Page, str], None]

SLOW_MS = 120_000  # a demo on a busy machine
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
    "per_1m_tokens": None,
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


def test_services_say_what_is_promised_and_how_it_is_kept(page: Page, axe: Axe, shot: Shot) -> None:
    answer(page, "/api/services$", {"at_ms": NOW_MS, "services": [IDLE, CHAT], "unmatched": ["nobody"]})
    answer(page, "/api/services/lab/ml/idle", detail(IDLE))
    answer(page, "/api/services/lab/ml/%3C", detail(CHAT))
    page.goto("/services")
    expect(page.get_by_role("heading", level=1)).to_contain_text("burns its error budget fast")
    panel = page.locator(".card", has_text="What is promised")
    expect(panel).to_contain_text("99 % of the requests take no longer than 2 s")
    expect(panel).to_contain_text("spent 3×")
    expect(page.get_by_text("vllm:time_to_first_token_seconds")).to_be_visible()
    expect(page.get_by_text("No service matches the objective")).to_contain_text("nobody")
    axe(page)
    page.get_by_role("link", name="idle").click()
    expect(page).to_have_url(re.compile("service=lab%2Fml%2Fidle"))
    expect(panel).to_contain_text("workload: idle")  # how to write an objective
    shot(page, "services-without-objective")
    assert "bad" not in page.title()


def test_services_of_the_demo(page: Page, axe: Axe, shot: Shot) -> None:
    page.goto("/services")
    rows = page.get_by_role("region", name="Services").get_by_role("row")
    expect(rows.nth(1)).to_be_visible(timeout=SLOW_MS)
    rows.nth(1).click()
    expect(page.get_by_role("img", name="Latency over time")).to_be_visible(timeout=SLOW_MS)
    axe(page)
    shot(page, "services")


def test_no_service_says_how_to_have_one(page: Page) -> None:
    answer(page, "/api/services$", {"at_ms": NOW_MS, "services": [], "unmatched": []})
    page.goto("/services")
    expect(page.get_by_text("trilens.serving.Middleware")).to_be_visible()


def test_an_incident_from_the_list_to_its_verdict(page: Page, axe: Axe, shot: Shot) -> None:
    page.goto("/incidents?range=1d")
    first = page.locator(".incidents .incident-title").first
    expect(first).to_be_visible(timeout=SLOW_MS)
    shot(page, "incidents")
    severity = page.locator(".incidents li .badge").first.inner_text().split()[-1]
    page.get_by_label("Severity").select_option(severity)
    expect(page).to_have_url(re.compile(f"severity={severity}"))
    axe(page)
    title = first.inner_text()
    first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(title[:20])
    expect(page.get_by_text("It began")).to_be_visible()
    page.get_by_role("button", name="Find out why").click()
    expect(page).to_have_url(re.compile("why=true"))
    said = page.locator(".verdict").first.or_(page.get_by_text("Nothing is out of the ordinary"))
    expect(said.first).to_be_visible(timeout=SLOW_MS)
    axe(page)
    shot(page, "incident")


def test_somebody_takes_an_incident_and_silences_it(page: Page) -> None:
    page.goto("/incidents?range=1d")
    opened = page.locator(".card", has=page.get_by_role("heading", name=re.compile("^Open")))
    expect(opened.locator(".incident-title").first).to_be_visible(timeout=SLOW_MS)
    opened.locator(".incident-title").first.click()
    taken = page.get_by_text("ada has it")
    page.get_by_label("You").fill("ada")
    page.get_by_role("button", name="I have it").click()
    expect(taken).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name="Silence…").click()
    page.get_by_role("textbox", name="Why").fill("new fans")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.get_by_role("status").get_by_role("link").click()
    expect(page.locator(".silences li").first).to_contain_text("ada: new fans")
    page.get_by_role("button", name=re.compile("End now")).first.click()
    expect(page.locator(".silences li")).to_have_count(0, timeout=SLOW_MS)


def test_rules_that_are_blind_say_what_to_switch_on(page: Page, axe: Axe, shot: Shot) -> None:
    remedy = "add to the counters file of dcgm-exporter:\nDCGM_X, gauge, x"
    rule = {
        "name": "GpuBlind",
        "query": "DCGM_X > 0",
        "labels": {"severity": "warning"},
        "health": "ok",
        "state": "inactive",
        "duration": 300,
        "annotations": {},
    }
    blind = {**rule, "blind": {"missing": ["DCGM_X"], "remedy": remedy}}
    rules = [{"name": "g", "file": "f", "rules": [blind, {**rule, "name": "Quiet"}]}]
    answer(page, "/api/v1/rules", {"groups": rules})
    page.goto("/incidents")
    page.get_by_role("button", name="Rules").click()
    page.get_by_role("button", name="Show what to switch on").click()
    expect(page.get_by_text("DCGM_X, gauge, x")).to_be_visible()
    expect(page.get_by_text("Quiet", exact=True)).to_have_count(0)
    axe(page)
    shot(page, "rules")


def test_receivers_are_tested_and_without_any_it_is_said_how_to_have_one(page: Page, axe: Axe) -> None:
    one = {
        "receiver": "oncall",
        "kind": "webhook",
        "where": "http://hook",
        "state": "failing",
        "waiting": 3,
        "waiting_since_ms": NOW_MS,
        "sent": 0,
        "failed": 8,
        "refused": 0,
        "dropped": 0,
        "last_ok_ms": None,
        "last_error_ms": NOW_MS,
        "last_error": "Connection refused",
        "next_try_ms": NOW_MS,
    }
    answer(page, "/api/receivers$", [one])
    answer(page, "/api/receivers/oncall/test", [{"where": "http://hook", "ok": False, "error": "refused"}])
    page.goto("/incidents?tab=receivers")
    expect(page.get_by_text("takes nothing")).to_be_visible()
    page.get_by_role("button", name="Send a test message to oncall").click()
    expect(page.get_by_role("status")).to_contain_text("Not taken: refused")
    axe(page)
    answer(page, "/api/receivers$", [])
    page.reload()
    expect(page.get_by_text("no receiver is configured")).to_be_visible()
    expect(page.get_by_text("alerting:")).to_be_visible()
