"""The web app as people see it: Debian's Chromium, driven by Playwright, against a running demo."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from servers import free_port, require_server, running
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
IMAGES = ROOT / "docs" / "images"
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 375, "height": 812}
_PATIENCE_MS = 60_000  # a busy machine takes its time
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a demo that runs."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "trilens.cli.main", "demo", "--listen", address]
    log = tmp_path_factory.mktemp("demo") / "log"
    # Not the night that this user may have kept: the same cluster everywhere.
    environ = clean_environment(XDG_CACHE_HOME=str(log.parent))
    with running(command, f"http://{address}/readyz", log=log, **environ):
        yield f"http://{address}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = require_server("chromium")
    # As root, in a container, Chromium has no sandbox to offer.
    options = ["--no-sandbox"]
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium, args=options) as found,
    ):
        yield found


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A new tab. What its console complains about fails the test, and so does a call to another host."""
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"{message.type}: {message.text}")

    with browser.new_context(viewport=WIDE, base_url=site, reduced_motion="reduce") as context:  # type: ignore[arg-type]
        tab = context.new_page()
        tab.set_default_timeout(_PATIENCE_MS)
        tab.on("console", heard)
        tab.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        tab.on("request", lambda asked: _from_here(asked.url, site, complaints))
        yield tab
    assert complaints == []


def _from_here(url: str, site: str, complaints: list[str]) -> None:
    if not url.startswith((site, "data:", "blob:")):
        complaints.append(f"asked another host: {url}")


@pytest.fixture
def axe() -> Callable[[Page], None]:
    """Fails for whatever keeps people from using the page: names, roles, contrast, order."""
    script = AXE.read_text(encoding="utf-8")

    def check(tab: Page) -> None:
        tab.evaluate(script)
        found: dict[str, Any] = tab.evaluate("axe.run({resultTypes: ['violations']})")
        told = [
            f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found["violations"]
        ]
        assert told == []

    return check


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    """A picture for the docs, where TRILENS_SHOTS asks for them."""

    def take(tab: Page, name: str) -> None:
        if os.environ.get("TRILENS_SHOTS"):
            IMAGES.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=IMAGES / f"{name}.png")

    return take
