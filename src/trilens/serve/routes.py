"""What answers under which path."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route


def route(path: str, handler: Any, *methods: str) -> Route:
    return Route(path, handler, methods=methods or ("GET",))
