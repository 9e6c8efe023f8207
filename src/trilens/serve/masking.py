"""Secrets taken out of what is shown: by the name they stand under, and out of URLs."""

from __future__ import annotations

import re
from typing import Any, Final

_MASK: Final = "<secret>"
_SECRET_KEYS: Final = frozenset(
    {"password", "credentials", "bearer_token", "client_secret", "token", "headers", "http_headers"}
)
_USERINFO: Final = re.compile(r"(?<=://)[^/@\s]+@")


def masked(value: Any) -> Any:
    """A copy of a settings tree, or a text, that may be shown."""
    if isinstance(value, dict):
        return {k: _MASK if k in _SECRET_KEYS and v else masked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return _USERINFO.sub(f"{_MASK}@", value) if isinstance(value, str) else value
