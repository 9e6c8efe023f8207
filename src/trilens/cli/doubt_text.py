"""A doubt as people read it."""

from __future__ import annotations

from typing import Any


def doubt_text(doubt: dict[str, Any]) -> str:
    remedy = f"; {doubt['remedy']}" if doubt["remedy"] else ""
    return f"{doubt['code']}: {doubt['text']}{remedy}"
