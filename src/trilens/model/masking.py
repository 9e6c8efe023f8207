"""Secrets taken out of what is shown: by the name they stand under, and out of URLs."""

from __future__ import annotations

import re
from typing import Any, Final

_MASK: Final = "<secret>"
_SECRET_KEYS: Final = frozenset(
    {"password", "credentials", "bearer_token", "client_secret", "token", "headers", "http_headers"}
)
# Up to the last @, as a password may hold one. A URL can stand in the query of another, escaped: a probe's.
_USERINFO: Final = re.compile(
    r"(?<=://)[^/?#\s]+(@)|(?<=%3A%2F%2F)(?:(?!%2F|%3F|%23)[^/?#&\s])+(%40)", re.IGNORECASE
)


def masked(value: Any) -> Any:
    """A copy of a settings tree that may be shown."""
    if isinstance(value, dict):
        return {k: _MASK if k in _SECRET_KEYS and v else masked(_without_key(k, v)) for k, v in value.items()}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return without_passwords(value) if isinstance(value, str) else value


def _without_key(name: str, value: Any) -> Any:
    """Of a certificate; what else is called `key` is none."""
    if name == "tls_config" and isinstance(value, dict) and value.get("key"):
        return {**value, "key": _MASK}
    return value


def without_passwords(text: str) -> str:
    """A text, such as a URL or an error that names one, without the user and the password of its URLs."""
    if "@" not in text and "%40" not in text:  # nearly always, and there are many texts
        return text
    return _USERINFO.sub(lambda found: _MASK + (found[1] or found[2]), text)
