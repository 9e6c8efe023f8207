"""Explore: a query is written, completed, run, and shown to others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from collections.abc import Callable

FIELD = "A query in PromQL"


def test_a_query_is_completed_run_and_shared(page: Page, usable: Callable[[Page], None]) -> None:
    page.goto("/explore?range=1h")
    field = page.get_by_label(FIELD)
    field.click()
    field.press_sequentially("sum by (Hos")
    offers = page.get_by_role("listbox", name="Completions")
    expect(offers.get_by_role("option", name="Hostname label")).to_be_visible()
    field.press("Tab")
    expect(field).to_have_value("sum by (Hostname")
    field.press_sequentially(") (gpu_pow")
    expect(offers.get_by_role("option").first).to_contain_text("trilens:gpu_power:watts")
    field.press("ArrowDown")
    field.press("Enter")
    expect(field).to_have_value("sum by (Hostname) (trilens:gpu_power:watts")
    field.press_sequentially(")")
    field.press("Enter")
    legend = page.get_by_role("list", name="Series")
    expect(legend.get_by_role("button").first).to_contain_text(re.compile(r"Hostname=.*k?W$"))
    expect(page).to_have_url(re.compile("query=sum"))
    usable(page)
    page.reload()  # what the address says is all there is to it
    expect(field).to_have_value("sum by (Hostname) (trilens:gpu_power:watts)")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("columnheader", name="value (power)")).to_be_visible()
    expect(page).to_have_url(re.compile("view=table"))
    page.get_by_text("History").click()
    expect(page.locator(".past-list code").first).to_have_text("sum by (Hostname) (trilens:gpu_power:watts)")


def test_values_of_a_label_are_offered_between_its_quotes(page: Page) -> None:
    page.goto("/explore")
    field = page.get_by_label(FIELD)
    field.click()
    field.press_sequentially('up{job="dc')
    expect(page.get_by_role("option", name="dcgm value")).to_be_visible()
    field.press("Tab")
    expect(field).to_have_value('up{job="dcgm')


def test_a_fault_is_marked_where_it_stands_and_nothing_is_asked(page: Page) -> None:
    page.goto("/explore")
    field = page.get_by_label(FIELD)
    field.fill("up +\n  * 2")
    expect(page.locator(".q-fault")).to_have_text("*")
    expect(page.get_by_text("line 2, column 3:")).to_be_visible()
    field.press("Enter")
    expect(page).not_to_have_url(re.compile("query="))
    field.fill("up + 2")
    expect(page.locator(".q-fault")).to_have_count(0)
    page.get_by_role("button", name="Run").click()
    expect(page).to_have_url(re.compile(r"query=up\+%2B\+2"))


def test_a_link_to_prometheus_leads_here(page: Page) -> None:
    page.goto("/graph?g0.expr=count(up)&g0.tab=1")
    expect(page).to_have_url(re.compile(r"/explore\?query=count"))
    expect(page.get_by_label(FIELD)).to_have_value("count(up)")
    expect(page.get_by_role("list", name="Series").get_by_role("button")).to_have_count(1)


def test_names_with_markup_are_text(page: Page) -> None:
    query = 'label_replace(vector(1), "name", "<img src=x onerror=alert(1)>", "", "")'
    page.goto(f"/explore?query={query.replace(' ', '+')}&view=table")
    expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
    assert page.locator("main img").count() == 0
