"""The web app as people see it: Debian's Chromium, driven by Playwright, against a running demo."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from watched_tab import PATIENCE_MS, watched_tab

from servers import free_port, missing, require_server, running, until
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
APP = ROOT / "src" / "trilens" / "serve" / "web" / "dist" / "index.html"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
PHONE_PX = 375
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
expect.set_options(timeout=PATIENCE_MS)


class Shared:
    """Begun by the first test that needs it, ended after the last of this folder: others need the machine."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._ending = ExitStack()

    def get(self, name: str, begin: Callable[[], AbstractContextManager[Any]]) -> Any:
        if name not in self._known:
            self._known[name] = self._ending.enter_context(begin())
        return self._known[name]

    def end(self) -> None:
        self._known.clear()
        self._ending.close()


_SHARED = Shared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Around all tries of a test: one that is run once more finds its browser and its demo as they were."""
    ran = yield
    if nextitem is None or HERE not in nextitem.path.parents:
        _SHARED.end()
    return ran


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    yield _SHARED
    _SHARED.end()


@pytest.fixture(scope="module")
def site(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a demo that has looked at its cluster; TRILENS_SITE names one that runs already."""
    known = os.environ.get("TRILENS_SITE")
    return known or str(shared.get("demo", lambda: _demo(tmp_path_factory.mktemp("demo"))))


@contextmanager
def _demo(folder: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    # Its simulator, its rules and a browser share the machine with other tests: seldom is often enough.
    command = [sys.executable, "-m", "trilens.cli.main", "demo", "--listen", address, "--interval", "15s"]
    # Not the night that this user may have kept: the same cluster everywhere.
    environ = clean_environment(XDG_CACHE_HOME=str(folder))
    with running(command, f"http://{address}/readyz", log=folder / "log", **environ):
        until(lambda: _has_looked(f"http://{address}"), "the demo found nothing in its cluster")
        yield f"http://{address}"


def _has_looked(site: str) -> bool:
    """Its rules were recorded, and what goes wrong in its cluster was found."""
    with httpx.Client(base_url=site, timeout=60) as client:
        power = client.get("/api/v1/query", params={"query": "trilens:gpu_power:watts"}).json()
        return bool(power["data"]["result"]) and bool(client.get("/api/incidents").json()["data"])


@pytest.fixture(scope="module")
def browser(shared: Shared) -> Browser:
    chromium = require_server("chromium")
    if not APP.exists() or not AXE.exists():
        missing("the web app is not built: make web")
    found = shared.get("browser", lambda: _browser(chromium))
    assert isinstance(found, Browser)
    return found


@contextmanager
def _browser(chromium: str) -> Iterator[Browser]:
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
    with watched_tab(browser, site) as tab:
        yield tab


@pytest.fixture(scope="session")
def axe() -> Callable[[Page], None]:
    """Fails for whatever keeps people from using the page: names, roles, contrast, order."""
    script = AXE.read_text(encoding="utf-8")

    def check(tab: Page) -> None:
        if not tab.evaluate("'axe' in window"):
            tab.evaluate(script)
        found: dict[str, Any] = tab.evaluate("axe.run({resultTypes: ['violations']})")
        told = [
            f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found["violations"]
        ]
        assert told == []

    return check


@pytest.fixture
def usable(axe: Callable[[Page], None]) -> Callable[[Page], None]:
    """Fails unless everybody can use the page as it stands: in light, in dark, and on a phone."""

    def check(tab: Page) -> None:
        wide = tab.viewport_size
        assert wide is not None
        for scheme in SCHEMES:
            tab.emulate_media(color_scheme=scheme)
            axe(tab)
        tab.emulate_media(color_scheme="light")
        tab.set_viewport_size({"width": PHONE_PX, "height": 812})
        tab.evaluate("new Promise(requestAnimationFrame)")  # charts follow the width
        beyond: list[str] = tab.evaluate(_BEYOND)
        assert beyond == []
        tab.set_viewport_size(wide)

    return check


# What makes the page wider than the window, if anything does; what scrolls within itself may be wider.
_BEYOND = """
() => {
  const root = document.documentElement;
  if (root.scrollWidth <= innerWidth) return [];
  const every = [...document.querySelectorAll('body *')];
  const wide = every.filter((one) => one.getBoundingClientRect().right > innerWidth);
  return [`${root.scrollWidth} px`, ...wide.slice(0, 8).map((one) => one.outerHTML.slice(0, 120))];
}
"""
