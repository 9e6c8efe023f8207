"""Doctor: what is not seen, and what to do about it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_the_doctor_says_what_is_not_seen_and_what_to_copy(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/doctor")
    money = page.get_by_role("region", name="Money")
    expect(money.get_by_role("heading", name=re.compile("list prices"))).to_be_visible()
    money.get_by_role("button", name="Copy: prices:").click()
    assert page.evaluate("navigator.clipboard.readText()") == "prices:\n  file: prices.yaml"
    page.get_by_role("button", name=re.compile("^Problems")).click()
    expect(page).to_have_url(re.compile("show=problem"))
    expect(money.get_by_text("Nothing of that kind here.")).to_be_visible()
    page.reload()
    expect(money.get_by_text("Nothing of that kind here.")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/api/doctor" in one.url else None)
    page.clock.install()
    with page.expect_response(re.compile("/api/doctor.*fresh")):
        page.get_by_role("button", name="Look again").click()
    expect(page.get_by_text(re.compile("layers examined, last just now"))).to_be_visible()
    # What a click asked for is done once, and not again with every later ask.
    with page.expect_request(lambda one: "/api/doctor" in one.url and "fresh" not in one.url):
        page.clock.run_for(20_000)
    assert ["fresh" in url for url in asked[:2]] == [True, False]
