"""Workloads, Fleet and a GPU's life, as people use them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlparse

import httpx
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Usable = Callable[[Page], None]

MARKUP = "<img src=x onerror=alert(1)>"
ROW_IN_SIGHT = """
() => {
  const box = document.querySelector('.table-box').getBoundingClientRect();
  const middle = box.top + 0.1 * box.height; // below the heads, where few rows are left as well
  const rows = [...document.querySelectorAll('tr.can-open')].map((row) => row.getBoundingClientRect());
  return rows.some((row) => row.top <= middle && middle < row.bottom);
}
"""


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


def given(page: Page, url: str, data: dict[str, Any]) -> None:
    """What `data` holds at the moment of asking."""
    page.route(url, lambda route: route.fulfill(json={"status": "success", "data": data}))


def test_ten_thousand_workloads_are_few_rows_and_names_are_only_text(page: Page) -> None:
    given(page, "**/api/workload-table*", many_workloads(10_000))
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


def test_rows_are_there_wherever_somebody_scrolled_before_a_search(page: Page) -> None:
    given(page, "**/api/workload-table*", many_workloads(10_000))
    page.goto("/workloads?sort=name")
    box = page.get_by_role("group", name="Workloads", exact=True)
    search, rows = page.get_by_role("searchbox"), box.locator("tbody tr.can-open")

    def scrolled_to(row: int) -> None:
        box.evaluate("(box, y) => { box.scrollTop = y; }", 34 * row)
        expect(rows.filter(has_text=f"job-{row} ")).to_be_in_viewport()

    expect(rows.first).to_be_visible()
    # 111 are still too many to draw, 11 are not, and without any there is no table.
    for q, left in (("job-50", 111), ("job-500", 11), ("no such", 0)):
        scrolled_to(5000)
        search.fill(q)
        expect(page.get_by_role("status")).to_contain_text(f"{left} of 10,000")
        if left > 0:
            page.wait_for_function(ROW_IN_SIGHT)
        search.fill("")
        expect(page.get_by_role("status")).to_contain_text("All 10,000")
        page.wait_for_function(ROW_IN_SIGHT)


def test_the_row_that_is_chosen_stays_so_when_others_move(page: Page) -> None:
    table = many_workloads(20)
    given(page, "**/api/workload-table*", table)
    page.clock.install()
    page.goto("/workloads?sort=-gpus")
    box = page.get_by_role("group", name="Workloads", exact=True)
    for _ in range(2):
        box.press("ArrowDown")
    chosen = box.locator("tr.is-chosen")
    expect(chosen).to_contain_text("job-18 ")
    table["gpus"][2] = 99  # comes before it
    page.clock.run_for(6000)
    expect(box.locator("tbody tr").first).to_contain_text("job-2 ")
    expect(chosen).to_contain_text("job-18 ")
    # The demo has no such job. A 404 that comes before the test is over would be a complaint of the console.
    page.route("**/api/workloads/prod/ml/Job/job-18**", lambda route: None)
    box.press("Enter")
    expect(page).to_have_url(re.compile("/workloads/prod/ml/Job/job-18$"))


def test_what_has_no_price_is_not_said_to_cost_nothing(page: Page) -> None:
    table = many_workloads(3)
    given(page, "**/api/workload-table*", table)
    page.goto("/workloads")
    shown = page.get_by_role("status")
    expect(shown).to_contain_text("3 GPUs, $6.00/h")
    table["currency"] = "credits"  # a unit of one's own
    page.reload()
    expect(shown).to_contain_text("3 GPUs, 6.00 credits/h")
    table["currency"] = "USD"
    table["cost_per_hour"] = [2.0, 2.0, None]
    page.reload()
    expect(shown).to_contain_text("3 GPUs, $4.00/h and 1 workload without a price")
    expect(page.locator(".wl-head")).to_contain_text("1 workload without a price")
    table["cost_per_hour"] = [None] * 3
    page.reload()
    expect(shown).to_contain_text("3 GPUs, no price known")
    expect(page.locator(".wl-head")).to_contain_text("no price known")


def test_before_the_first_look_no_gpu_is_said_to_be_well(page: Page, site: str) -> None:
    fleet = httpx.get(f"{site}/api/fleet", timeout=60).raise_for_status().json()["data"]
    gpus = len(fleet["gpus"]["node"])
    fleet["gpus"].update(state=["reporting"] * gpus, health=["ok"] * gpus)
    fleet["nodes"]["state"] = ["ready"] * len(fleet["nodes"]["name"])
    fleet["findings"] = []
    given(page, "**/api/fleet", fleet)
    broken = page.get_by_role("region", name="Broken or lost")
    for at_ms, headline, said in (
        (1, "report and are well", "Nothing:"),
        (None, "not known yet", "Not known"),
    ):
        fleet["at_ms"] = at_ms
        page.goto("/fleet")
        expect(page.locator("h1")).to_contain_text(headline)
        expect(broken).to_contain_text(said)


def test_of_what_is_wrong_with_a_gpu_the_gravest_stands_first(page: Page, site: str) -> None:
    fleet = httpx.get(f"{site}/api/fleet", timeout=60).raise_for_status().json()["data"]
    uuid = next(one for one in fleet["gpus"]["uuid"] if one)
    life = httpx.get(f"{site}/api/gpus/{uuid}/life", timeout=60).raise_for_status().json()["data"]
    finding = {"code": "D031", "onset_ms": life["from_ms"] + 1, "ended_ms": None, "action": ""}
    life["findings"] = [
        {**finding, "id": severity, "severity": severity, "text": f"a {severity} one"}
        for severity in ("info", "critical", "warning")
    ]
    given(page, "**/life*", life)
    page.goto(f"/fleet/gpus/{uuid}")
    expect(page.locator("header .notice")).to_contain_text("a critical one")


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
