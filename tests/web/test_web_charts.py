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
    said = "makes no steps"

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


def trouble_of(found: dict[str, Any], **told: Any) -> dict[str, Any]:
    one = {"what": "incident", "name": "D001", "severity": "info", "from_ms": found["from_ms"], "to_ms": None}
    return {**one, "rank": None, "node": None, "gpu": None, "lost": None, "currency": None, **told}


def test_of_many_troubles_those_that_last_and_the_gravest_are_shown(page: Page, path: str) -> None:
    def many(found: dict[str, Any]) -> None:
        at_ms = found["from_ms"]
        over = [
            trouble_of(found, id=f"{i}", title=f"was {i}", from_ms=at_ms + i, to_ms=at_ms + 60_000)
            for i in range(30)
        ]
        grave = trouble_of(found, id="grave", title="was grave", severity="critical", to_ms=at_ms + 1)
        found["troubles"] = [
            grave,
            *over,
            trouble_of(found, id="now", title="lasts", from_ms=at_ms + 120_000),
        ]
        mark = {"kind": "xid", "code": 79, "text": "lost", "node": None, "gpu": 0, "rank": None, "count": 1}
        found["platform"] |= {"marks": [{**mark, "t_ms": at_ms + i} for i in range(25)], "more_marks": 5}

    changed(page, r"/timeline\?", many)
    page.goto(f"{path}?range=1h")
    lanes = page.locator(".lane-said")
    expect(lanes).to_have_count(12)
    expect(lanes.first).to_have_text("was grave")
    expect(lanes.last).to_have_text("lasts")
    expect(page.locator(".lane-more")).to_contain_text("and 20 more")
    page.locator(".lane-list summary").click()
    expect(page.locator(".lane-list")).to_contain_text("and 20 more that went wrong")
    expect(page.locator(".lane-list")).to_contain_text("and 10 more events")


def test_it_is_said_to_be_well_only_when_the_troubles_of_now_are_known(page: Page, path: str) -> None:
    held: list[Route] = []

    def runs(found: dict[str, Any]) -> None:
        found["workload"]["gone"] = None
        found["workload"]["phase"] = {
            "phase": "running", "reason": "", "attempt": 0, "from_ms": 1, "to_ms": None, "seconds": 60,
        }  # fmt: skip

    def lasting(*, is_past: bool) -> Callable[[dict[str, Any]], None]:
        def change(found: dict[str, Any]) -> None:
            found["troubles"] = [] if is_past else [trouble_of(found, id="x", title="rank 3 has crashed")]

        return change

    changed(page, r"/api/workloads/[^?]+\?limit", runs)
    changed(page, r"/api/runs\?", lambda found: found.update(runs=[]))
    page.route(re.compile(r"/timeline\?"), lambda route: held.append(route))
    page.goto(f"{path}?range=1h")
    health = page.locator(".workload-health")
    expect(health).to_contain_text("Whether anything is wrong is not known yet")
    page.unroute(re.compile(r"/timeline\?"))
    changed(page, r"/timeline\?", lambda found: found.update(troubles=[]))
    for route in held:
        route.fallback()
    expect(health).to_contain_text("Nothing is found to be wrong")
    # Of a span that is over, the troubles are those of then: how it is now is asked for besides.
    changed(page, r"/timeline\?.*to=", lasting(is_past=True))
    changed(page, r"/timeline\?((?!to=).)*$", lasting(is_past=False))
    to_ms = int(time.time() * 1000) - 600_000
    page.goto(f"{path}?from={to_ms - 600_000}&to={to_ms}")
    expect(health).to_contain_text("rank 3 has crashed")


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
