"""Money: where it went, by what people choose, and what is left of the month."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

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
    focus = page.get_by_role("link", name="FOCUS Parquet").get_attribute("href")
    assert focus is not None
    assert "format=parquet" in focus
    assert "where=workload" in focus
    page.get_by_role("button", name=f"Only workload {name}: leave this out").click()
    expect(page).not_to_have_url(re.compile("where="))


def test_what_a_request_cost_what_was_for_nothing_and_the_month(page: Page) -> None:
    page.goto("/money")
    one = page.get_by_role("region", name="What one cost")
    one.get_by_role("button", name="Request", exact=True).click()
    expect(page).to_have_url(re.compile("per=request"))
    expect(one).to_contain_text("by the requests that ended")
    expect(one.locator("tbody tr td:nth-child(2)").first).to_have_text(re.compile(r"^\$\d"))
    expect(page.get_by_role("region", name="This month")).to_contain_text(re.compile(r"\$[\d,.]+ so far"))
    expect(page.get_by_role("region", name="For nothing").get_by_role("listitem").first).to_contain_text("$")
