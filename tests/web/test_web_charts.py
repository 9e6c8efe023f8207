"""What stands above and beside curves: values under the cursor, and trouble in words."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from servers import until

if TYPE_CHECKING:
    from collections.abc import Callable

NAMED = "{kind} {namespace}/{name}"


@pytest.fixture(scope="module")
def whose(site: str) -> dict[str, str]:
    """The workload with the most GPUs, once there are any."""
    tables: list[dict[str, list[Any]]] = []

    def are_there() -> bool:
        tables.append(httpx.get(f"{site}/api/workload-table", timeout=60).raise_for_status().json()["data"])
        return any(tables[-1]["gpus"])

    until(are_there, "no workload has a GPU")
    table = tables[-1]
    at = max(range(len(table["name"])), key=lambda i: table["gpus"][i])
    return {part: table[part][at] for part in ("cluster", "namespace", "kind", "name")}


@pytest.fixture(scope="module")
def path(whose: dict[str, str]) -> str:
    return "/workloads/{cluster}/{namespace}/{kind}/{name}".format(**whose)


def changed(page: Page, url: str, change: Callable[[dict[str, Any]], None]) -> None:
    """What the server answers there, with a change."""

    def answer(route: Route) -> None:
        found = route.fetch()
        body: dict[str, Any] = found.json()
        change(body["data"])
        route.fulfill(response=found, json=body)

    page.route(re.compile(url), answer)


def test_a_chart_says_its_last_values_and_then_those_under_the_cursor(page: Page, path: str) -> None:
    # Of a span that is over, nothing is asked for again, which would write as well.
    to_ms = int(time.time() * 1000)
    page.goto(f"{path}?from={to_ms - 3_600_000}&to={to_ms}")
    chart = page.get_by_role("img", name="GPU activity", exact=True)
    value, moment = chart.locator(".chart-head b"), chart.locator(".chart-time")
    expect(value).to_have_text(re.compile(r"^\d+ %"))
    expect(moment).to_have_text("")
    over = chart.locator(".u-over")
    over.hover()
    expect(moment).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    power = page.get_by_role("img", name="Power", exact=True)
    expect(power.locator(".chart-time")).to_have_text(moment.inner_text())
    page.mouse.move(2, 2)
    expect(moment).to_have_text("")
    expect(value).to_have_text(re.compile(r"^\d+ %"))


def test_trouble_over_the_charts_is_in_words_and_said_once(
    page: Page, path: str, whose: dict[str, str]
) -> None:
    said = "has made no step for 3 h"

    def trouble(found: dict[str, Any]) -> None:
        one = {
            "id": "x", "name": "D001", "severity": "critical", "title": f"{NAMED.format(**whose)} {said}",
            "from_ms": found["from_ms"] + 60_000, "to_ms": None,
        }  # fmt: skip
        found["troubles"] = [{**one, "what": "incident"}, {**one, "what": "finding", "id": "y"}]

    changed(page, r"/timeline\?", trouble)
    page.goto(f"{path}?range=1h")
    lanes = page.locator(".lane-said")
    expect(lanes).to_have_text([said])


def test_the_table_says_what_is_wrong_without_the_name_that_is_beside_it(
    page: Page, whose: dict[str, str]
) -> None:
    def ill(found: dict[str, Any]) -> None:
        at = found["name"].index(whose["name"])
        found["health"][at] = "critical"
        found["health_text"][at] = f"{NAMED.format(**whose)}: rank 3 has crashed"

    changed(page, r"/api/workload-table\?", ill)
    page.goto("/workloads")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=whose["name"], exact=True))
    expect(row.locator(".wl-said")).to_have_text("rank 3 has crashed")
    expect(page.get_by_role("columnheader", name="Cost, 30 d")).to_be_visible()


def test_of_a_long_story_the_beginning_and_the_end_are_shown_first(page: Page, site: str) -> None:
    incident = httpx.get(f"{site}/api/incidents", timeout=60).raise_for_status().json()["data"][0]["id"]

    def long(found: dict[str, Any]) -> None:
        first = found["timeline"][0]
        found["timeline"] = [{**first, "t_ms": first["t_ms"] + i, "text": f"it was {i}"} for i in range(99)]

    changed(page, rf"/api/incidents/{incident}(\?|$)", long)
    page.goto(f"/incidents/{incident}")
    story = page.locator(".story li")
    expect(story).to_have_count(16)
    expect(story.last).to_contain_text("it was 98")
    page.get_by_role("button", name="84 more between").click()
    expect(story).to_have_count(99)
