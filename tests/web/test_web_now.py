"""Now: what people see first."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

PHONE = {"width": 375, "height": 812}
MARKUP = "<img src=x onerror=alert(1)>"


def answered(page: Page, path: str, heading: str) -> None:
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
    expect(page.get_by_role("status")).to_have_count(0)


def data_of(site: str, path: str) -> Any:
    return httpx.get(f"{site}{path}", timeout=60).raise_for_status().json()["data"]


def test_the_first_screen_says_on_what_the_money_is_gone(page: Page, site: str) -> None:
    answered(page, "/", "were lost in the last 12 hours")
    largest = data_of(site, "/api/now")["money"]["causes"][0]
    for size in ({"width": 1280, "height": 800}, PHONE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        reason = page.get_by_role("list", name="The largest losses").get_by_role("listitem").first
        expect(reason).to_contain_text(largest["what"])
        expect(reason.locator("b")).to_be_in_viewport()
        expect(page.get_by_text("Burning now")).to_be_in_viewport()


def test_an_incident_and_a_spender_lead_on(page: Page) -> None:
    answered(page, "/", "were lost")
    page.get_by_role("button", name="Teams").click()
    expect(page).to_have_url(re.compile(r"by=team"))
    page.reload()
    expect(page.get_by_role("group", name="Top spenders by team")).to_be_visible(timeout=60_000)
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
    expect(page.get_by_role("heading", level=1)).to_contain_text("lost")


@pytest.mark.parametrize(
    ("lost", "booked", "headline", "where"),
    [
        (None, 0, "is not known", "It is not known: no hour of this time is booked."),
        ("0", 1, "1 of 12 hours is booked", "Nothing was lost in the hours that are booked."),
        ("0", 12, "Nothing was lost", "Nothing was lost in this time."),
    ],
)
def test_what_nobody_booked_is_not_said_to_be_nothing(
    page: Page, site: str, lost: str | None, booked: int, headline: str, where: str
) -> None:
    found = data_of(site, "/api/now")
    money = {**found["money"], "lost": lost, "causes": [], "rest": None, "rest_causes": None}
    money["hours"] = {**money["hours"], "asked": 12, "booked": booked}
    told = json.dumps({"data": {**found, "money": money}})
    page.route("**/api/now*", lambda route: route.fulfill(status=200, body=told))
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_contain_text(headline)
    expect(page.get_by_text(where)).to_be_visible()


@pytest.mark.parametrize(
    ("lost", "said"), [("12345.6", "$12,346 lost so far"), (None, "what they lost is not known")]
)
def test_what_incidents_lost_is_of_all_that_are_open(
    page: Page, site: str, lost: str | None, said: str
) -> None:
    told = {**data_of(site, "/api/now"), "more_incidents": 3, "incidents_lost": lost}
    page.route("**/api/now*", lambda route: route.fulfill(status=200, body=json.dumps({"data": told})))
    page.goto("/")
    expect(page.get_by_text(said)).to_be_visible()


@pytest.mark.parametrize(
    ("compared_ms", "said"),
    [
        (1_790_000_000_000, "Nothing: the same workloads"),
        (None, "It is not known: there is nothing to compare with."),
    ],
)
def test_what_nothing_compares_with_is_not_said_to_be_the_same(
    page: Page, site: str, compared_ms: int | None, said: str
) -> None:
    found = data_of(site, "/api/now")
    changes = dict.fromkeys(found["changes"]) | {"lost_gpus": []}
    changes["incidents"] = {**found["changes"]["incidents"], "count": 0}
    told = json.dumps({"data": {**found, "compared_ms": compared_ms, "changes": changes}})
    page.route("**/api/now*", lambda route: route.fulfill(status=200, body=told))
    page.goto("/")
    expect(page.get_by_role("region", name="What changed")).to_contain_text(said)


def test_without_any_gpu_it_says_how_to_begin(page: Page, site: str) -> None:
    found = data_of(site, "/api/now")
    nothing = {**found, "burn": None, "incidents": [], "gpus": [{**one, "gpus": 0} for one in found["gpus"]]}
    page.route("**/api/now*", lambda route: route.fulfill(status=200, body=json.dumps({"data": nothing})))
    page.goto("/")
    expect(page.get_by_text("Trilens sees no GPU yet.")).to_be_visible()
    expect(page.get_by_text("trilens up")).to_be_visible()
