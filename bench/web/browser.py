"""Chromium as the one who looks: when a page can be used, what it took, and how long its frames are."""

from __future__ import annotations

import gzip
import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_MS: Final = 120_000
_SIZE: Final = {"width": 1440, "height": 900}
_MOVES: Final = 300
_SETTLE_MS: Final = 600
# A page can be used once what it is for is drawn, nothing in it says that it is still loading, and the main
# thread has nothing else to do.
_WATCH: Final = """
(() => {
  let tell;
  window.usable = new Promise((told) => { tell = told; });
  const look = () => {
    const main = document.querySelector("main");
    if (main === null || main.querySelector(".spinner") !== null) return;
    if (main.querySelector(WANTED) === null) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => requestIdleCallback(() => tell(performance.now()))));
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { subtree: true, childList: true, attributes: true });
})();
"""
_ASKS: Final = """
() => performance.getEntriesByType("resource").map((one) => ({
  path: new URL(one.name).pathname,
  fromMs: one.startTime,
  toMs: one.responseEnd,
  kilobytes: one.encodedBodySize / 1000,
}))
"""
_FRAMES: Final = """
() => {
  window.frames = [];
  let before = performance.now();
  const next = (now) => {
    window.frames.push(now - before);
    before = now;
    window.nextFrame = requestAnimationFrame(next);
  };
  window.nextFrame = requestAnimationFrame(next);
}
"""


class Opening(NamedTuple):
    """From the navigation on, in a tab that has nothing of the site yet."""

    usable_ms: float
    answers: int
    waited_ms: float  # from the first ask of the API to the last answer before it could be used
    busy_ms: float  # CPU time of the main thread
    script_kb: float  # on the wire


class Moving(NamedTuple):
    moves: int
    frames: int
    median_ms: float
    longest_ms: float
    over: int  # frames longer than the goal
    longest_task_ms: float  # of the main thread: what of it is the page's own doing
    longest_task_cpu_ms: float


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's. Raises RuntimeError where it has none."""
    found = shutil.which("chromium")
    if found is None:
        raise RuntimeError("there is no chromium; `make servers` installs it")
    with (
        sync_playwright() as playwright,
        # As root, in a container, Chromium has no sandbox to offer.
        playwright.chromium.launch(executable_path=found, args=["--no-sandbox"]) as browser,
    ):
        yield browser


@contextmanager
def tab(browser: Browser, site: str) -> Iterator[Page]:
    """With an empty cache."""
    with browser.new_context(viewport=_SIZE, base_url=site) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(_PATIENCE_MS)
        yield page


def opened(page: Page, path: str, useful: str) -> Opening:
    """`useful` is a selector of what the page is for."""
    told = page.context.new_cdp_session(page)
    told.send("Performance.enable")
    page.add_init_script(_WATCH.replace("WANTED", json.dumps(useful)))
    page.goto(path, wait_until="commit")
    usable_ms: float = page.evaluate("() => window.usable")
    metrics = {one["name"]: one["value"] for one in told.send("Performance.getMetrics")["metrics"]}
    asks = page.evaluate(_ASKS)
    answers = [one for one in asks if one["path"].startswith("/api/") and one["toMs"] <= usable_ms]
    waited_ms = max((one["toMs"] for one in answers), default=0.0) - min(
        (one["fromMs"] for one in answers), default=0.0
    )
    script_kb = sum(one["kilobytes"] for one in asks if one["path"].endswith(".js"))
    return Opening(usable_ms, len(answers), waited_ms, 1000 * metrics["ThreadTime"], script_kb)


def moved_over(page: Page, over: str, goal_ms: float) -> Moving:
    """The pointer goes through all that `over` selects, from edge to edge and on to the next."""
    boxes = page.locator(over)
    each = max(10, _MOVES // max(1, boxes.count()))
    moves = 0
    page.wait_for_timeout(_SETTLE_MS)
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    page.evaluate(_FRAMES)
    for at in range(boxes.count()):
        one = boxes.nth(at)
        one.scroll_into_view_if_needed()
        box = one.bounding_box()
        if box is None:
            continue
        for step in range(each):
            share = step / each
            page.mouse.move(
                box["x"] + 2 + share * (box["width"] - 4),
                box["y"] + box["height"] * (0.2 + 0.6 * (step % 7) / 7),
            )
            moves += 1
    frames: list[float] = page.evaluate(
        "() => { cancelAnimationFrame(window.nextFrame); return window.frames; }"
    )
    tasks = _main_tasks(json.loads(browser.stop_tracing()))
    frames = sorted(frames[1:]) or [0.0]
    return Moving(
        moves,
        len(frames),
        frames[len(frames) // 2],
        frames[-1],
        sum(one > goal_ms for one in frames),
        max((wall for wall, _ in tasks), default=0.0),
        max((cpu for _, cpu in tasks), default=0.0),
    )


def _main_tasks(trace: dict[str, Any]) -> list[tuple[float, float]]:
    """Wall and CPU time of what the main threads of pages did at one go, in milliseconds."""
    events = trace["traceEvents"]
    mains = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    return [
        (one["dur"] / 1000, one.get("tdur", 0) / 1000)
        for one in events
        if one["name"].endswith("RunTask") and one["ph"] == "X" and (one["pid"], one["tid"]) in mains
    ]


def script_kilobytes(built: Path) -> float:
    """All scripts of the app together, as gzip makes them."""
    return sum(len(gzip.compress(one.read_bytes())) for one in built.glob("assets/*.js")) / 1000
