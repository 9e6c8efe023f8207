"""Experiments: runs side by side, and what their loss cost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
from playwright.sync_api import Page, Route, expect

from servers import until

if TYPE_CHECKING:
    from collections.abc import Callable


NAMELESS = "(without a name)"


def priced(route: Route) -> None:
    """A young demo has not booked its runs yet."""
    answer = route.fetch()
    body = answer.json()
    for run in (run for one in body["data"] for run in one["runs"]):
        run["cost"] = {"amount": "1638", "currency": "USD", "goodput": 0.7, "unpriced_gpu_ms": 0}
    route.fulfill(response=answer, body=json.dumps(body))


def test_runs_are_compared(page: Page, usable: Callable[[Page], None]) -> None:
    page.route(re.compile(r"/api/experiments(\?|$)"), priced)
    page.goto("/experiments")
    expect(page.get_by_role("img", name=re.compile("against"))).to_be_visible()
    page.get_by_role("group", name="Against").get_by_role("button", name="Steps").click()
    expect(page.get_by_role("img", name=re.compile("against step"))).to_be_visible()
    rows = page.get_by_role("group", name="Runs").locator("tbody tr")
    expect(rows.first.locator("td").nth(3)).to_have_text("$1,638")
    names = [rows.nth(at).locator(".run-name").inner_text().split()[0] for at in (0, 1)]
    rows.nth(0).get_by_role("checkbox").check()
    rows.nth(1).click()  # anywhere in it
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    expect(page).to_have_url(re.compile("against=steps.*runs=.*%2C"))
    page.reload()
    side = page.get_by_role("group", name="Runs side by side")
    for name in names:
        expect(side.locator("thead")).to_contain_text(name)
    expect(page.get_by_role("img", name=re.compile("against step"))).to_be_visible()
    usable(page)
    side.get_by_role("button").first.click()
    expect(page.get_by_role("heading", name="Side by side")).to_have_count(0)


def test_a_link_to_a_run_opens_its_experiment(page: Page, site: str) -> None:
    """From the table of workloads, where nobody knows its workload."""
    every = httpx.get(f"{site}/api/experiments", timeout=60).raise_for_status().json()["data"]
    smallest = min(every, key=lambda one: len(one["runs"]))
    run = smallest["runs"][0]["run"]

    def read() -> Any:
        return httpx.get(f"{site}/api/workload-table", timeout=60).raise_for_status().json()

    until(lambda: bool(read()["data"]["name"]), "the demo has no workloads")
    table = read()
    for name, told in (("cluster", ""), ("namespace", ""), ("kind", "Run"), ("name", "alone"), ("run", run)):
        table["data"][name][0] = told
    page.route(re.compile(r"/api/workload-table"), lambda route: route.fulfill(body=json.dumps(table)))
    page.goto("/workloads?q=alone")
    page.get_by_role("link", name="alone").click()
    expect(page).to_have_url(re.compile(rf"/experiments\?.*runs={run}"))
    expect(page.get_by_label("Experiment")).to_have_value(smallest["experiment"] or NAMELESS)
    rows = page.get_by_role("group", name="Runs").locator("tbody tr")
    expect(rows.get_by_role("checkbox", checked=True)).to_have_count(1)
