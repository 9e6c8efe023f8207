"""Now and Money: what people see first, and where the money went."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
from playwright.sync_api import Page, Route, expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PHONE = {"width": 375, "height": 812}
MARKUP = "<img src=x onerror=alert(1)>"


def answered(page: Page, path: str, heading: str) -> None:
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading, timeout=60_000)
    expect(page.get_by_role("status")).to_have_count(0, timeout=60_000)


def data_of(site: str, path: str) -> Any:
    return httpx.get(f"{site}{path}", timeout=60).raise_for_status().json()["data"]


def test_the_first_screen_says_on_what_the_money_is_gone(
    page: Page, site: str, shot: Callable[[Page, str], None]
) -> None:
    answered(page, "/", "were lost in the last 12 hours")
    shot(page, "now")
    largest = data_of(site, "/api/now")["money"]["causes"][0]
    for size in ({"width": 1280, "height": 800}, PHONE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        reason = page.get_by_role("list", name="The largest losses").get_by_role("listitem").first
        expect(reason).to_contain_text(largest["what"])
        expect(reason.locator("b")).to_be_in_viewport()
        expect(page.get_by_text("Burning now")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_an_incident_and_a_spender_lead_on(page: Page) -> None:
    answered(page, "/", "were lost")
    page.get_by_role("button", name="Teams").click()
    expect(page).to_have_url(re.compile(r"by=team"))
    page.reload()
    expect(page.get_by_role("region", name="Top spenders by team")).to_be_visible(timeout=60_000)
    incident = page.locator(".now-incident").first
    title = incident.locator(".now-incident-title").inner_text()
    assert title
    incident.click()
    expect(page).to_have_url(re.compile(r"/incidents/[\w-]+"))


def test_names_with_markup_are_only_names(page: Page, site: str) -> None:
    found = data_of(site, "/api/now")
    found["money"]["causes"] = [{**one, "what": MARKUP} for one in found["money"]["causes"]]
    found["incidents"] = [{**one, "title": MARKUP, "team": MARKUP} for one in found["incidents"]]
    found["teams"] = [{**one, "team": MARKUP, "is_fleet": False} for one in found["teams"]]

    def answer(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps({"data": found}))

    page.route("**/api/now*", answer)
    answered(page, "/?by=team", "were lost")
    expect(page.get_by_text(MARKUP).first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_an_answer_that_makes_no_sense_is_said_and_can_be_asked_again(page: Page) -> None:
    page.route("**/api/now*", lambda route: route.fulfill(status=200, body="<html>a proxy</html>"))
    page.goto("/")
    expect(page.get_by_role("alert")).to_contain_text("The server's answer is not JSON")
    page.unroute("**/api/now*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("lost", timeout=60_000)


def test_without_any_gpu_it_says_how_to_begin(page: Page, site: str) -> None:
    found = data_of(site, "/api/now")
    nothing = {**found, "burn": None, "incidents": [], "gpus": [{**one, "gpus": 0} for one in found["gpus"]]}
    page.route("**/api/now*", lambda route: route.fulfill(status=200, body=json.dumps({"data": nothing})))
    page.goto("/")
    expect(page.get_by_text("Trilens sees no GPU yet.")).to_be_visible()
    expect(page.get_by_text("trilens up")).to_be_visible()


def test_money_by_any_two_dimensions_of_a_part_of_it(
    page: Page, tmp_path: Path, shot: Callable[[Page, str], None]
) -> None:
    answered(page, "/money", "were spent in the last 12 hours")
    shot(page, "money")
    page.get_by_label("Rows").select_option("workload")
    table = page.get_by_role("group", name="Cost by workload and bucket")
    expect(table).to_be_visible(timeout=60_000)
    row = table.locator("tbody tr", has=page.locator("a")).first
    name = row.locator("a").inner_text()
    row.hover()
    row.get_by_role("button", name=f"Only {name}").click()
    expect(page).to_have_url(re.compile(r"rows=workload.*where=workload"))
    expect(table.locator("tbody tr")).to_have_count(1, timeout=60_000)
    with page.expect_download() as downloading:
        page.get_by_role("button", name="CSV", exact=True).click()
    file = tmp_path / "cost.csv"
    downloading.value.save_as(file)
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    assert head == "workload,bucket,currency,amount,amount_before,gpu_hours,gpu_hours_without_price"
    assert lines
    assert all(name in line for line in lines)
    focus = page.get_by_role("link", name="FOCUS Parquet").get_attribute("href")
    assert focus is not None
    assert "format=parquet" in focus
    assert "where=workload" in focus
    page.get_by_role("button", name=f"Only workload {name}: leave this out").click()
    expect(page).not_to_have_url(re.compile("where="))


def test_money_of_units_and_the_month(page: Page) -> None:
    answered(page, "/money?per=request", "were spent")
    expect(page.get_by_role("button", name="Request")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("by the requests that ended")).to_be_visible(timeout=60_000)
    month = page.get_by_role("region", name="This month")
    expect(month).to_contain_text("so far")
