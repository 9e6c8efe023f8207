"""Somebody logs in with a provider, in a browser: who it is stands at the top, until they log out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from watched_tab import PATIENCE_MS

from oidc_at_work import Site, site_with_provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = "/explore"


@pytest.fixture(scope="module")
def login_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_with_provider(tmp_path_factory.mktemp("login")) as found:
        yield found


@pytest.fixture
def tab(browser: Browser, login_site: Site) -> Iterator[Page]:
    """It goes to another host on purpose: the provider."""
    with browser.new_context(base_url=login_site.url, reduced_motion="reduce") as context:
        found = context.new_page()
        found.set_default_timeout(PATIENCE_MS)
        yield found


def fill_in(tab: Page, account: str) -> None:
    tab.locator("input[name=login]").fill(account)
    tab.locator("input[name=password]").fill("any")
    tab.locator("button[type=submit]").click()
    tab.locator("button[type=submit]", has_text="Continue").click()


def test_somebody_logs_in_and_out(tab: Page, login_site: Site, axe: Callable[[Page], None]) -> None:
    tab.goto(PAGE)
    expect(tab.get_by_role("alert")).to_contain_text("You are not logged in")
    axe(tab)
    tab.locator("header").get_by_role("link", name="Log in").click()
    fill_in(tab, "ada+ops")
    tab.wait_for_url(f"{login_site.url}{PAGE}*")
    expect(tab.locator(".account")).to_contain_text("ada@example.test")
    expect(tab.get_by_role("alert")).to_have_count(0)
    axe(tab)
    assert tab.evaluate("document.cookie") == ""
    tab.locator(".account").click()
    axe(tab)
    tab.get_by_role("button", name="Log out").click()
    expect(tab.get_by_role("alert")).to_contain_text("You are not logged in")
    expect(tab.locator(".account")).to_contain_text("Log in")


def test_a_login_is_taken_to_a_terminal(tab: Page, login_site: Site, axe: Callable[[Page], None]) -> None:
    """The address is what `trilens login` prints: it leads there through the login."""
    tab.goto("/explore?terminal=1")
    tab.locator("header").get_by_role("link", name="Log in").click()
    fill_in(tab, "bob+nlp")
    dialog = tab.get_by_role("dialog", name="Log in from a terminal")
    expect(dialog).to_contain_text(f"trilens login --server {login_site.url}")
    dialog.get_by_role("button", name="Copy a login").click()
    made = dialog.get_by_label("Login").input_value()
    axe(tab)
    me = httpx.get(f"{login_site.url}/auth/me", headers={"Authorization": f"Bearer {made}"}).json()["data"]
    assert (me["name"], me["how"]) == ("bob@example.test", "terminal")
    dialog.get_by_role("button", name="Close").click()
    expect(tab).to_have_url(f"{login_site.url}/explore")
    tab.locator(".account").click()
    expect(tab.locator("#account-menu")).to_contain_text("May read of nlp only")


def test_on_a_phone_one_can_log_out(tab: Page) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto("/auth/login?next=/explore")
    fill_in(tab, "bob+nlp")
    tab.locator(".account").click()
    expect(tab.get_by_role("button", name="Log out")).to_be_in_viewport(ratio=1)


def test_who_may_do_nothing_is_told_so(tab: Page) -> None:
    tab.goto("/auth/login")
    fill_in(tab, "eve+unknown")
    expect(tab.locator("body")).to_contain_text("eve@example.test is known, but may do nothing here")


def test_a_right_that_is_missing_is_said(tab: Page, login_site: Site) -> None:
    tab.goto("/auth/login?next=/doctor")
    fill_in(tab, "bob+nlp")
    expect(tab.locator(".account")).to_contain_text("bob@example.test")
    expect(tab.locator("main")).to_contain_text("bob@example.test sees team nlp only")
