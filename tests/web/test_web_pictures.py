"""The pictures of the docs, each taken once it shows what it is there for: `make pictures`.

They are of the night of the demo, which is not everywhere: without TRILENS_SHOTS nothing is done here.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from watched_tab import PATIENCE_MS

from servers import free_port, running, until
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not os.environ.get("TRILENS_SHOTS"), reason="no pictures are asked for")

IMAGES = Path(__file__).parents[2] / "docs" / "images"
COLOURS = 256
TERMINAL = (112, 24)
_HOURS_OF_A_NIGHT = 12
_MORNING = 8  # o'clock
_DEAR = 5_000  # dollars: what the dearest job of the night has cost
_FONTS = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A demo that has opened on its night, with all of its hours booked; TRILENS_SITE names one that runs."""
    known = os.environ.get("TRILENS_SITE")
    if known:
        yield known
        return
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "trilens.cli.main", "demo", "--listen", address]
    log = tmp_path_factory.mktemp("night") / "log"
    with running(command, f"http://{address}/readyz", log=log, **clean_environment()):
        until(lambda: _is_booked(f"http://{address}"), "its hours are not booked")
        yield f"http://{address}"


def _is_booked(site: str) -> bool:
    """And the table of workloads knows it, and samples of its first hours are there."""
    since = {"from": time.time() - _HOURS_OF_A_NIGHT * 3600}
    first = {"query": "DCGM_FI_DEV_GPU_UTIL", "time": since["from"] + 3600}
    with httpx.Client(base_url=site, timeout=60) as client:
        hours = client.get("/api/cost/why", params=since).raise_for_status().json()["data"]["hours"]
        costs = client.get("/api/workload-table").raise_for_status().json()["data"]["cost"]
        if not client.get("/api/v1/query", params=first).raise_for_status().json()["data"]["result"]:
            return False
    return hours["booked"] >= _HOURS_OF_A_NIGHT and max((one or 0 for one in costs), default=0) > _DEAR


@pytest.fixture
def tab(browser: Browser, night: str) -> Iterator[Page]:
    with browser.new_context(
        viewport={"width": 1280, "height": 860},
        base_url=night,
        reduced_motion="reduce",
        timezone_id=_morning(),
    ) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        yield page


def _morning() -> str:
    """Where it is the morning after the night, as the docs tell it. (Etc/GMT-3 is three hours ahead.)"""
    ahead = (_MORNING - time.gmtime().tm_hour + 11) % 24 - 11
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/GMT"


def opened(tab: Page, path: str) -> None:
    tab.goto(path)
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    expect(tab.locator(".spinner")).to_have_count(0)


def picture(of: Page | Locator, name: str, **options: Any) -> None:
    """With a palette of the colours that are seen most: text and areas lose nothing by it."""
    from PIL import Image

    taken = Image.open(io.BytesIO(of.screenshot(**options))).convert("RGB")
    palette = Image.new("P", (1, 1))
    most = sorted(taken.getcolors(taken.width * taken.height) or [], reverse=True)[:COLOURS]
    palette.putpalette([part for _, colour in most for part in colour])  # type: ignore[union-attr]
    IMAGES.mkdir(parents=True, exist_ok=True)
    packed = taken.quantize(palette=palette, dither=Image.Dither.NONE)
    packed.save(IMAGES / f"{name}.png", optimize=True)


def workload(site: str, name: str) -> str:
    table = httpx.get(f"{site}/api/workload-table", timeout=60).raise_for_status().json()["data"]
    at = table["name"].index(name)
    return "/".join(["/workloads", *(table[part][at] for part in ("cluster", "namespace", "kind", "name"))])


def test_twelve_thousand_dollars_are_gone_and_the_page_says_on_what(tab: Page) -> None:
    opened(tab, "/")
    expect(tab.get_by_role("heading", level=1)).to_contain_text(re.compile(r"\$1[1-4],\d{3} were lost"))
    expect(tab.get_by_role("list", name="The largest losses")).to_contain_text("llm-pretrain-1")
    picture(tab, "now")


def test_a_job_that_stands_in_three_layers_with_its_money(tab: Page, night: str) -> None:
    tab.set_viewport_size({"width": 1280, "height": 2000})
    opened(tab, workload(night, "llm-pretrain-1"))
    expect(tab.locator(".workload-health")).to_contain_text("makes no steps")
    charts = tab.locator(".u-over")
    expect(charts).to_have_count(tab.locator(".chart").count())
    loss = charts.first.bounding_box()
    assert loss is not None
    tab.mouse.move(loss["x"] + loss["width"] * 0.37, loss["y"] + 40)
    below = tab.get_by_role("heading", name="Ranks over time").bounding_box()
    assert below is not None
    picture(tab, "workload", clip={"x": 0, "y": 0, "width": 1280, "height": below["y"] - 18})


def test_a_straggler_is_a_line_among_the_ranks(tab: Page, night: str) -> None:
    opened(tab, workload(night, "vision-finetune-1"))
    card = tab.locator("section", has=tab.get_by_role("heading", name="Ranks over time"))
    expect(card).to_contain_text(re.compile(r"Slower than the others: rank \d+"))
    slow = int(re.findall(r"rank (\d+) on", card.inner_text())[0])
    canvas = card.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * (slow + 0.5) / 16)
    expect(card.locator(".heat-tip")).to_contain_text(f"rank {slow} at")
    picture(card, "ranks")


def test_money_hour_by_hour_and_by_team(tab: Page) -> None:
    opened(tab, "/money")
    expect(tab.get_by_role("group", name="Cost by team and bucket")).to_be_visible()
    picture(tab, "money")


def test_an_incident_with_its_verdict(tab: Page, night: str) -> None:
    incidents = httpx.get(f"{night}/api/incidents", timeout=60).raise_for_status().json()["data"]
    hang = next(one["id"] for one in incidents if "has hung" in one["title"])
    opened(tab, f"/incidents/{hang}?why=1")
    expect(tab.locator(".verdict").first).to_contain_text("rank 11")
    picture(tab, "incident")


def test_the_terminal(browser: Browser, night: str) -> None:
    # Playwright has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as beside:
        drawn = beside.submit(lambda: asyncio.run(_terminal(night))).result()
    assert "llm-pretrain-1" in drawn
    with browser.new_context() as context:
        page = context.new_page()
        page.set_content(_FONTS.sub("", drawn).replace("Fira Code", "DejaVu Sans Mono"))
        picture(page.locator("svg"), "top")


async def _terminal(site: str) -> str:
    from textual.pilot import Pilot

    from trilens.cli.top.app import TopApp
    from trilens.cli.top.marks import UNICODE
    from trilens.cli.top.reading import Reader

    app = TopApp(Reader(site), UNICODE)
    async with app.run_test(size=TERMINAL) as pilot:
        assert isinstance(pilot, Pilot)
        while app.picture is None:
            await pilot.pause(0.1)
        await pilot.pause()
        return app.export_screenshot(title="trilens top")
