"""A doubt as every answer tells it."""

from __future__ import annotations

import msgspec


class DoubtAnswer(msgspec.Struct, frozen=True):
    """Why something may be wrong, and what would settle it."""

    code: str
    text: str
    remedy: str | None
