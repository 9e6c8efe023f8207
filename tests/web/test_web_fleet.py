"""Workloads, Fleet and a GPU's life, as people use them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page, Route

    Usable = Callable[[Page], None]

MARKUP = "<img src=x onerror=alert(1)>"


def query_of(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlparse(page.url).query)


def test_a_workload_is_found_and_opened(page: Page) -> None:
    page.goto("/workloads")
    rows = page.locator("tbody tr.can-open")
    expect(rows.first).to_be_visible()
    expect(page.locator("h1")).to_contain_text("in trouble")
    before = rows.count()
    name = rows.nth(1).locator("a").first.inner_text()
    page.get_by_role("searchbox").fill(name)
    expect(rows.first).to_contain_text(name)
    expect(page.get_by_role("status")).to_contain_text("of")
    assert rows.count() < before
    assert query_of(page)["q"] == [name]
    page.reload()  # the address has it all
    expect(rows.first).to_contain_text(name)
    page.get_by_role("button", name="GPUs").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("GPUs")
    assert query_of(page)["sort"] == ["-gpus"]
    page.get_by_role("group", name="Workloads", exact=True).press("ArrowDown")
    page.get_by_role("group", name="Workloads", exact=True).press("Enter")
    expect(page).to_have_url(re.compile(r"/(workloads/[^/]+/|experiments)"))


def many_workloads(count: int) -> dict[str, Any]:
    """As /api/workload-table would answer; the first has a name with markup in it."""

    def every(value: Any) -> list[Any]:
        return [value] * count

    return {
        "at_ms": 1, "currency": "USD", "cluster": every("prod"), "namespace": every("ml"),
        "kind": every("Job"),
        "name": [MARKUP, *(f"job-{number}" for number in range(1, count))], "team": every("vision"),
        "phase": every("running"), "since_ms": every(1), "gone_ms": every(None), "gpus": [*range(count)],
        "health": ["critical", *every("ok")[1:]], "health_text": [MARKUP, *every(None)[1:]],
        "incident": every(None), "goodput": every(0.5), "cost": every(1.0), "cost_per_hour": every(2.0),
        "run": every(None), "run_name": every(None), "step": every(50), "total_steps": every(100),
        "seconds_left": every(3600),
    }  # fmt: skip


def test_ten_thousand_workloads_are_few_rows_and_names_are_only_text(page: Page) -> None:
    body = json.dumps({"status": "success", "data": many_workloads(10_000)})

    def answer(route: Route) -> None:
        route.fulfill(body=body, content_type="application/json")

    page.route("**/api/workload-table*", answer)
    page.goto("/workloads")
    rows = page.locator("tbody tr.can-open")
    expect(rows.first).to_contain_text(MARKUP)
    assert page.locator("main img").count() == 0
    assert rows.count() < 100
    expect(page.locator("h1")).to_contain_text("1 workload in trouble")
    page.get_by_role("searchbox").fill("job-9999")
    expect(page.get_by_role("status")).to_contain_text("1 of 10,000 workloads shown: 9,999 GPUs, $2.00/h")
    page.get_by_role("searchbox").fill("no such")
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("status")).to_contain_text("All 10,000 workloads")


def test_from_the_map_to_the_life_of_a_gpu(page: Page, usable: Usable) -> None:
    page.goto("/fleet")
    board = page.get_by_role("application")
    expect(board.locator("canvas")).to_be_visible()
    expect(page.locator(".fleet-legend")).to_contain_text("healthy")
    page.get_by_role("button", name="Owner").click()
    assert query_of(page)["by"] == ["owner"]
    expect(page.locator(".fleet-legend li").first).to_be_visible()
    page.get_by_label("Group by").select_option("cluster")
    assert query_of(page)["group"] == ["cluster"]
    page.reload()
    expect(page.get_by_role("button", name="Owner")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Group by")).to_have_value("cluster")
    board.focus()
    board.press("ArrowRight")
    expect(board.get_by_role("status")).to_contain_text("of")
    name = board.locator("b").inner_text()
    board.press("Enter")
    expect(page).to_have_url(re.compile("/fleet/gpus/"))
    expect(page.locator("h1")).to_contain_text(name)
    expect(page.get_by_role("heading", name="What it did")).to_be_visible()
    usable(page)
