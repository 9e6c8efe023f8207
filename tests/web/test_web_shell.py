"""What surrounds every page: navigation, keyboard, theme, token, and what is said when the server is away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = ("", "workloads", "fleet", "money", "experiments", "services", "incidents", "explore", "doctor")


@pytest.mark.parametrize("path", PAGES)
def test_each_page_opens_and_can_be_used_by_all(
    page: Page, usable: Callable[[Page], None], path: str
) -> None:
    page.goto(f"/{path}")
    expect(page.locator("nav a[aria-current=page]")).to_have_attribute("href", re.compile(f"^/{path}"))
    expect(page.locator("main h1")).to_be_attached()
    expect(page.locator(".spinner")).to_have_count(0)  # all of it has its answer
    expect(page.locator("main .state-failed")).to_have_count(0)
    usable(page)


def test_pages_open_by_keyboard(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page).to_have_url(re.compile("/workloads$"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="A page, a workload, an incident").fill("doct")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/doctor$"))


def test_the_span_of_time_is_in_the_address_and_goes_along(page: Page) -> None:
    page.goto("/workloads?range=3h")
    picker = page.get_by_label("Span of time")
    expect(picker).to_have_value("3h")
    page.locator("nav a", has_text="Money").click()
    expect(page).to_have_url(re.compile("/money\\?range=3h"))
    picker.select_option("24h")
    expect(page).to_have_url(re.compile("range=24h"))
    page.go_back()
    expect(page).to_have_url(re.compile("/workloads\\?range=3h"))
    expect(picker).to_have_value("3h")


def test_a_theme_is_kept(page: Page) -> None:
    page.goto("/doctor")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_an_address_that_does_not_exist_says_so(page: Page) -> None:
    page.goto("/workloads")
    page.evaluate("history.pushState(null, '', '/no-such'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
