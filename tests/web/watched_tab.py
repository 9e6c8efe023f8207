"""A tab of its own for a server of a test's own: what its console says that nobody expects fails the test."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Page

PATIENCE_MS = 60_000  # a busy machine takes its time


@contextmanager
def watched_tab(browser: Browser, site: str, *expected: str, width: int = 1280) -> Iterator[Page]:
    """`expected`: patterns of what the console may say, such as that the network failed."""
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        told = f"{message.type}: {message.text}"
        if message.type in ("error", "warning") and not any(re.search(one, told) for one in expected):
            complaints.append(told)

    context = browser.new_context(
        viewport={"width": width, "height": 800}, base_url=site, reduced_motion="reduce"
    )
    with context:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE_MS)
        tab.on("console", heard)
        tab.on("pageerror", lambda error: complaints.append(f"thrown: {error}"))
        tab.on("request", lambda asked: _from_here(asked.url, site, complaints))
        yield tab
    assert not complaints, "\n".join(complaints)


def _from_here(url: str, site: str, complaints: list[str]) -> None:
    if not url.startswith((f"{site}/", "data:", "blob:")):
        complaints.append(f"asked another host: {url}")
