"""docs/api.md names every route, and docs/web.md every page."""

from __future__ import annotations

from pathlib import Path

from memory_api import Api

DOCS = Path(__file__).parents[2] / "docs"


def test_every_route_is_documented() -> None:
    written = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("api.md", "web.md"))
    routes = [route.path for route in Api().build().routes]
    assert len(routes) > 20
    assert [path for path in routes if f"{path}`" not in written] == []
