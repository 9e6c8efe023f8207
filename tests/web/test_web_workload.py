"""The page of one workload: its layers over time, its ranks, why it is so, and what went into a step."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import Page, expect

if TYPE_CHECKING:
    from collections.abc import Callable

_WITHOUT_CHARTS = """
() => {
  window.drawnAnew = 0;
  const seen = (changes) => {
    for (const change of changes) {
      const element = change.target instanceof Element ? change.target : change.target.parentElement;
      const chart = element?.closest('.chart, .heat-cursor, .heat-tip, time');
      if (chart == null) window.drawnAnew += 1;
    }
  };
  new MutationObserver(seen).observe(document.querySelector('.workload'), {
    subtree: true, childList: true, characterData: true, attributes: true,
  });
}
"""


@pytest.fixture(scope="module")
def path(site: str) -> str:
    """Of the workload with the most ranks that tells of its steps."""
    with httpx.Client(base_url=site, timeout=60) as client:
        runs = client.get("/api/runs", params={"limit": 50}).json()["data"]["runs"]
    told = [one for one in runs if one["workloads"] and one["step"] is not None and one["ranks"] > 1]
    whose = max(told, key=lambda one: (one["ranks"], one["step"]))["workloads"][0]
    return "/workloads/{cluster}/{namespace}/{kind}/{name}".format(**whose)


def opened(page: Page, path: str, query: str = "") -> None:
    page.goto(f"{path}?range=3h{query}")
    expect(page.locator(".u-over").first).to_be_visible()
    expect(page.get_by_role("heading", name="Ranks over time")).to_be_visible()


def test_three_layers_and_money_for_everybody(page: Page, path: str, usable: Callable[[Page], None]) -> None:
    opened(page, path)
    expect(page.get_by_role("heading", level=1)).to_have_text(path.rpartition("/")[2])
    for layer in ("Program", "Platform", "Infrastructure", "Money"):
        expect(page.get_by_role("heading", name=re.compile(f"^{layer}"))).to_be_visible()
    for chart in ("Loss", "Throughput", "Pods", "GPU activity", "Power", "Temperature", "SM clock"):
        expect(page.get_by_role("img", name=chart, exact=True)).to_be_visible()
    usable(page)


def test_a_cursor_moves_through_all_charts_and_nothing_is_drawn_anew(page: Page, path: str) -> None:
    opened(page, path)
    page.evaluate(_WITHOUT_CHARTS)
    over = page.locator(".u-over").first
    box = over.bounding_box()
    assert box is not None
    for share in range(10, 90, 4):
        page.mouse.move(box["x"] + box["width"] * share / 100, box["y"] + box["height"] / 2)
    shown = page.locator(".chart .u-cursor-x:not(.u-off)")
    assert shown.count() == page.locator(".chart").count()
    expect(page.locator(".heat-cursor")).not_to_have_attribute("hidden", re.compile(".*"))
    # An answer may come in meanwhile: that is one drawing, and not one for each move.
    assert page.evaluate("window.drawnAnew") < 400


def test_a_stretch_that_is_dragged_over_is_zoomed_into(page: Page, path: str) -> None:
    opened(page, path)
    box = page.locator(".u-over").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.6, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    page.get_by_role("button", name="Back to now").click()
    expect(page).not_to_have_url(re.compile("from="))


def test_a_rank_is_told_of_and_chosen_on_the_map(page: Page, path: str) -> None:
    opened(page, path)
    canvas = page.locator(".under-charts canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 3)
    expect(page.locator(".heat-tip")).to_contain_text(re.compile(r"rank \d+ at"))
    page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + 3)
    expect(page).to_have_url(re.compile(r"rank=\d+"))
    page.reload()
    expect(page.get_by_role("img", name=re.compile(r"Step time of rank \d+"))).to_be_visible()
    page.get_by_role("button", name=re.compile(r"Without rank \d+")).click()
    expect(page).not_to_have_url(re.compile(r"rank=\d+"))


def test_from_a_point_of_the_loss_to_its_batches(page: Page, path: str) -> None:
    opened(page, path)
    box = page.get_by_role("img", name="Loss", exact=True).locator(".u-over").bounding_box()
    assert box is not None
    found = re.compile(r"step=\d+")
    for share in (0.97, 0.9, 0.8, 0.6):  # of a young demo, only the end has steps
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 20)
        page.mouse.click(box["x"] + box["width"] * share, box["y"] + 20)
        if found.search(page.url):
            break
    expect(page).to_have_url(found)
    expect(page.get_by_role("group", name=re.compile(r"Ranks in step \d+"))).to_contain_text("samples from")
    page.get_by_role("button", name="Close").click()
    expect(page).not_to_have_url(found)


def test_why_is_asked_only_when_somebody_wants_to_know(page: Page, path: str) -> None:
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/api/why" in one.url else None)
    opened(page, path)
    assert asked == []
    page.get_by_role("button", name="Find out why").click()
    expect(page.locator(".verdict, .state-empty").last).to_be_visible()
    expect(page).to_have_url(re.compile("why=1"))
    assert len(asked) == 1
    # Of another span, it is another question.
    with page.expect_request(re.compile("/api/why")):
        page.get_by_label("Span of time").select_option("6h")
    expect(page.locator(".verdict, .state-empty").last).to_be_visible()


def holding(site: str) -> str:
    """Of a workload that has GPUs now: in a demo any may lose its own to a fault, for minutes."""
    with httpx.Client(base_url=site, timeout=60) as client:
        gpus = client.get("/api/gpus").json()["data"]
    held = Counter(
        (one["cluster"], holder["namespace"], holder["kind"], holder["workload"])
        for one in gpus
        for holder in one["holders"]
        if holder["workload"] and holder["rank"] is not None
    )
    return "/workloads/{}/{}/{}/{}".format(*held.most_common(1)[0][0])


def test_members_attempts_and_checkpoints(page: Page, site: str) -> None:
    page.goto(f"{holding(site)}?range=3h")
    expect(page.get_by_role("group", name="Ranks and GPUs").get_by_role("link").first).to_be_visible()
    for tab, shown in (("Pods", "pods"), ("Attempts", "attempts"), ("Checkpoints", "checkpoints")):
        page.get_by_role("group", name="What is listed").get_by_role("button", name=re.compile(tab)).click()
        expect(page).to_have_url(re.compile(f"show={shown}"))
