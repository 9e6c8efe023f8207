"""Money: where it went, by what people choose, and what is left of the month."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
from playwright.sync_api import Page, Route, expect

from servers import until

if TYPE_CHECKING:
    from pathlib import Path


def test_money_by_any_two_dimensions_of_a_part_of_it(page: Page, tmp_path: Path) -> None:
    page.goto("/money")
    expect(page.get_by_role("heading", level=1)).to_contain_text("were spent in the last 12 hours")
    page.get_by_label("Rows").select_option("workload")
    table = page.get_by_role("group", name="Cost by workload and bucket")
    row = table.locator("tbody tr", has=page.locator("a")).first
    name = row.locator("a").inner_text()
    row.hover()
    row.get_by_role("button", name=f"Only {name}").click()
    expect(page).to_have_url(re.compile(r"rows=workload.*where=workload"))
    expect(table.locator("tbody tr")).to_have_count(1)
    page.reload()  # the address has it all
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(table.locator("tbody tr")).to_contain_text(name)
    with page.expect_download() as downloading:
        page.get_by_role("button", name="CSV", exact=True).click()
    file = tmp_path / "cost.csv"
    downloading.value.save_as(file)
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    assert head == "workload,bucket,currency,amount,amount_before,gpu_hours,gpu_hours_without_price"
    assert lines
    assert all(name in line for line in lines)
    with page.expect_request(re.compile("/api/cost/focus")) as asking, page.expect_download() as focus:
        page.get_by_role("button", name="FOCUS Parquet").click()
    assert "format=parquet" in asking.value.url
    assert "where=workload" in asking.value.url
    focus.value.save_as(file)
    assert file.read_bytes().startswith(b"PAR1")
    page.get_by_role("button", name=f"Only workload {name}: leave this out").click()
    expect(page).not_to_have_url(re.compile("where="))


def test_what_a_request_cost_what_was_for_nothing_and_the_month(page: Page, site: str) -> None:
    def priced() -> bool:
        asked = {"per": "request", "from": "-12h"}
        answer = httpx.get(f"{site}/api/cost/units", params=asked, timeout=60).raise_for_status()
        return any(one["per_unit"] for one in answer.json()["data"]["lines"])

    until(priced, "no request of the demo has been booked")
    page.goto("/money")
    one = page.get_by_role("region", name="What one cost")
    one.get_by_role("button", name="Request", exact=True).click()
    expect(page).to_have_url(re.compile("per=request"))
    expect(one).to_contain_text("by the requests that ended")
    expect(one.locator("tbody tr td:nth-child(2)").first).to_have_text(re.compile(r"^(≈ )?\$\d"))
    expect(page.get_by_role("region", name="This month")).to_contain_text(re.compile(r"\$[\d,.]+ so far"))
    expect(page.get_by_role("region", name="For nothing").get_by_role("listitem").first).to_contain_text("$")


def test_a_price_of_tokens_that_were_told_in_a_part_of_the_time_says_so(page: Page) -> None:
    detail = "completion tokens, told of in 5 % of its time: by the cost of that part"

    def told(route: Route) -> None:
        found = route.fetch()
        body = found.json()
        line = {"name": "chat", "amount": "200", "per_unit": "5", "units": 2.0, "unpriced_gpu_ms": 0}
        rest = {"keys": {"workload": None}, "currency": "USD", "gpu_ms": 1, "detail": detail, "told": 0.05}
        body["data"]["lines"] = [{**line, **rest}]
        route.fulfill(response=found, json=body)

    page.route(re.compile(r"/api/cost/units"), told)
    page.goto("/money?per=token")
    one = page.get_by_role("region", name="What one cost")
    expect(one).to_contain_text("completion tokens, no prompts")
    expect(one.locator("tbody tr td").nth(1)).to_have_text("≈ $5.00")
    expect(one.locator("tbody tr")).to_contain_text("told of in 5 % of its time")


def test_an_hour_of_which_nothing_is_booked_did_not_cost_nothing(page: Page) -> None:
    def latest_only(route: Route) -> None:
        found = route.fetch()
        body = found.json()
        latest = max(line["keys"]["hour"] for line in body["data"]["lines"])
        body["data"]["lines"] = [one for one in body["data"]["lines"] if one["keys"]["hour"] == latest]
        route.fulfill(response=found, json=body)

    page.route(re.compile(r"/api/cost\?.*by=hour"), latest_only)
    page.goto("/money")
    hours = page.locator(".stacks-column")
    expect(hours.last).to_be_visible()
    hours.first.hover()
    expect(page.locator(".stacks .heat-tip")).to_contain_text(re.compile(": not booked$"))


def test_a_span_before_of_which_a_part_is_booked_is_not_compared_with(page: Page) -> None:
    def partly(route: Route) -> None:
        found = route.fetch()
        body = found.json()
        data = body["data"]
        data["compared"] = True
        data["hours_before"] = {**data["hours"], "asked": 12, "booked": 1}
        for one in (*data["lines"], *data["totals"]):
            one |= {"before": one["now"] and {**one["now"], "amount": "1"}, "change": "1", "change_ratio": 10}
        route.fulfill(response=found, json=body)

    page.route(re.compile(r"/api/cost\?"), partly)
    page.goto("/money")
    told = "not compared: of the span before, 1 of 12 hours is booked"
    expect(page.get_by_role("heading", level=1)).to_contain_text(told)
    expect(page.locator(".card", has_text=told)).to_have_count(1)
    table = page.get_by_role("group", name="Cost by team and bucket")
    expect(table.locator("tbody tr td:nth-child(3)").first).to_have_text("–")


def test_an_address_that_was_cut_off_shows_what_is_left_of_it(page: Page) -> None:
    page.goto("/money?where=%25zz,cluster%3Ddemo")
    expect(page.get_by_role("heading", level=1)).to_contain_text("were spent")
    expect(page.locator(".money-filter")).to_have_count(1)


def test_money_of_another_span_does_not_stand_under_the_new_heading(page: Page) -> None:
    page.goto("/money")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("in the last 12 hours")
    held: list[Route] = []
    page.route("**/api/cost?*", lambda route: held.append(route))
    page.get_by_label("Span of time").select_option("24h")
    expect(page.get_by_text("Adding up the money")).to_be_visible()
    expect(heading).to_have_count(0)
    expect(page.get_by_role("group", name="Cost by team and bucket")).to_have_count(0)
    expect(page.get_by_role("region", name="Hour by hour").locator(".answer")).to_have_attribute(
        "aria-busy", "true"
    )
    page.unroute("**/api/cost?*")
    for route in held:
        route.fallback()
    expect(heading).to_contain_text("in the last 24 hours")
    expect(page.locator(".answer[aria-busy=true]")).to_have_count(0)
