"""By keyboard alone: the palette, the list of keys, the theme; the tour; and a tab that nobody looks at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from servers import until

if TYPE_CHECKING:
    from collections.abc import Callable

HIDE = """
(isHidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event('visibilitychange'));
}
"""


def asked(site: str, path: str) -> Any:
    return httpx.get(f"{site}{path}", timeout=60).json()["data"]


def opened(page: Page) -> Locator:
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="A page, a workload, an incident")
    expect(field).to_be_focused()
    return field


def found(page: Page) -> Locator:
    return page.locator("#palette-list [role=option]")


def settled(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator(".spinner")).to_have_count(0)


def test_the_palette_finds_a_workload(page: Page, site: str, axe: Callable[[Page], None]) -> None:
    name = asked(site, "/api/workload-table")["name"][0]
    settled(page, "/doctor?range=3h")
    opened(page).fill(name)
    expect(found(page).first).to_have_text(re.compile(rf"^{re.escape(name)} \S+ in "))
    axe(page)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/workloads/.*/{re.escape(name)}\?range=3h$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_palette_finds_an_incident(page: Page, site: str) -> None:
    title = re.split(r" for \d", asked(site, "/api/incidents")[0]["title"])[0]  # how long it lasts changes
    settled(page, "/doctor")
    opened(page).fill(f"incident {title}")
    expect(found(page).first).to_contain_text(title)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/incidents/"))


def test_the_palette_by_arrows_and_back_by_escape(page: Page) -> None:
    settled(page, "/doctor")
    # The focus goes back to where it was.
    theme = page.get_by_role("button", name=re.compile("^Theme"))
    theme.focus()
    field = opened(page)
    chosen = page.locator("#palette-list [aria-selected=true]")
    expect(chosen).to_contain_text("Now")
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Workloads")
    expect(field).to_have_attribute("aria-activedescendant", "palette-1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(found(page).last).to_have_attribute("aria-selected", "true")
    field.fill("no page is called so")
    expect(page.get_by_role("dialog")).to_contain_text("Nothing of that name")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(theme).to_be_focused()
    opened(page)
    page.mouse.click(5, 400)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(theme).to_be_focused()


def test_the_keys_are_listed(page: Page, axe: Callable[[Page], None]) -> None:
    settled(page, "/doctor")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("g m")
    expect(keys).to_contain_text("Ctrl K")
    axe(page)
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    opened(page).fill("keys")
    page.keyboard.press("Enter")
    expect(keys).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(keys).to_have_count(0)

    def goes_to_money() -> bool:
        page.keyboard.press("g")
        page.keyboard.press("m")  # on a busy machine this one may come too late
        return page.url.endswith("/money")

    until(goes_to_money, "g m does not open Money")


def test_letters_that_are_typed_open_nothing(page: Page) -> None:
    settled(page, "/workloads")
    page.keyboard.press("/")
    search = page.get_by_label("Search workloads")
    expect(search).to_be_focused()
    page.keyboard.type("gm?")
    expect(search).to_have_value("gm?")
    expect(page).to_have_url(re.compile("/workloads"))
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_theme_by_the_palette_is_kept(page: Page) -> None:
    settled(page, "/doctor")
    for theme in ("light", "dark"):
        opened(page).fill("theme")
        page.keyboard.press("Enter")
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
    page.goto("/fleet")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("path", ["/", "/workloads", "/fleet", "/incidents"])
def test_a_tab_that_nobody_sees_asks_nothing(page: Page, path: str) -> None:
    page.clock.install()
    settled(page, path)
    page.clock.run_for(10_000)  # the other pages are loaded by now
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.evaluate(HIDE, True)
    expect(page.locator(".spinner")).to_have_count(0)
    before = len(requests)  # those that were on their way
    page.clock.run_for(300_000)
    assert requests[before:] == []
    page.evaluate(HIDE, False)
    with page.expect_request(re.compile("/api/")):
        page.clock.run_for(1000)


def test_the_tour_walks_through_one_incident(page: Page, site: str) -> None:
    def has_one() -> bool:
        return any(one["subject"]["workload"] for one in asked(site, "/api/incidents"))

    until(has_one, "no workload is in trouble")
    page.goto("/?tour=1")
    tour = page.get_by_role("complementary", name="Tour")
    expect(tour).to_be_focused()
    count = int(re.search(r"1 of (\d+)", tour.inner_text()).group(1))  # type: ignore[union-attr]
    titles = []
    for step in range(1, count + 1):
        expect(tour).to_contain_text(f"{step} of {count}")
        titles.append(tour.get_by_role("heading").inner_text())
        expect(page.locator("main .state-failed")).to_have_count(0)
        if titles[-1] == "Why":
            expect(page.locator(".verdict").first).to_be_visible()
        if step < count:
            tour.get_by_role("button", name="Next").click()
    assert len(set(titles)) == count
    assert "Why" in titles
    tour.get_by_role("button", name="Done").click()
    expect(tour).to_have_count(0)
    expect(page).not_to_have_url(re.compile("tour="))


def test_the_tour_by_keyboard(page: Page) -> None:
    page.goto("/?tour=1")
    tour = page.get_by_role("complementary", name="Tour")
    expect(tour).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tour).to_contain_text("2 of")
    expect(tour).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(tour).to_contain_text("1 of")
    # Escape closes what lies above first.
    opened(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(tour).to_be_visible()
    page.locator("main").click()
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    expect(page).not_to_have_url(re.compile("tour="))


def test_the_tour_can_be_skipped(page: Page) -> None:
    page.goto("/?tour=2")
    page.get_by_role("button", name="Skip the tour").click()
    expect(page.get_by_role("complementary", name="Tour")).to_have_count(0)
