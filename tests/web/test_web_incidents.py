"""Incidents and alerts as people use them: on the demo, and with answers that it does not give."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Page, Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable

    Axe = Callable[[Page], None]
    Usable = Callable[[Page], None]

NOW_MS = 1_790_000_000_000


def answer(page: Page, pattern: str, data: Any) -> None:
    def give(route: Route) -> None:
        route.fulfill(
            status=200, content_type="application/json", body=json.dumps({"status": "success", "data": data})
        )

    page.route(re.compile(pattern), give)


def test_an_incident_from_the_list_to_its_verdict(page: Page, usable: Usable) -> None:
    page.goto("/incidents?range=1d")
    first = page.locator(".incidents .incident-title").first
    expect(first).to_be_visible()
    severity = page.locator(".incidents li .badge").first.inner_text().split()[-1]
    page.get_by_label("Severity").select_option(severity)
    expect(page).to_have_url(re.compile(f"severity={severity}"))
    page.reload()
    expect(page.get_by_label("Severity")).to_have_value(severity)
    title = first.inner_text()
    first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(title[:20])
    expect(page.get_by_text("It began")).to_be_visible()
    page.get_by_role("button", name="Find out why").click()
    expect(page).to_have_url(re.compile("why=1"))
    said = page.locator(".verdict").first.or_(page.get_by_text("Nothing is out of the ordinary"))
    expect(said.first).to_be_visible()
    page.reload()  # the verdict comes along with the address
    expect(said.first).to_be_visible()
    usable(page)


def test_somebody_takes_an_incident_and_silences_it(page: Page) -> None:
    page.goto("/incidents?range=1d")
    opened = page.locator(".card", has=page.get_by_role("heading", name=re.compile("^Open")))
    opened.locator("li").filter(has_not_text="has it").locator(".incident-title").first.click()
    taken = page.get_by_text("ada has it")
    page.get_by_label("You").fill("ada")
    page.get_by_role("button", name="I have it").click()
    expect(taken).to_be_visible()
    page.get_by_role("button", name="Silence…").click()
    page.get_by_role("textbox", name="Why").fill("new fans")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.get_by_role("status").get_by_role("link").click()
    expect(page.locator(".silences li").first).to_contain_text("ada: new fans")
    page.get_by_role("button", name=re.compile("End now")).first.click()
    expect(page.locator(".silences li")).to_have_count(0)


def test_rules_that_are_blind_say_what_to_switch_on(page: Page, axe: Axe) -> None:
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


def test_a_severity_of_ones_own_does_not_come_before_critical(page: Page) -> None:
    alerts = [
        {
            "labels": {"alertname": f"Of{severity}", "severity": severity},
            "annotations": {},
            "state": "firing",
            "activeAt": "2026-01-01T00:00:00Z",
            "value": "1",
        }
        for severity in ("tuesday", "info", "critical", "warning")
    ]
    answer(page, "/api/v1/alerts", {"alerts": alerts})
    page.goto("/incidents?tab=alerts")
    rows = page.get_by_role("group", name="Alerts").locator("tbody tr td:first-child")
    expect(rows).to_have_text([re.compile(one) for one in ("critical", "warning", "info", "tuesday")])


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
