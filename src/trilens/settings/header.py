"""Which texts an HTTP header can carry."""

from __future__ import annotations

from typing import Final

UNSENDABLE: Final = "may hold only printable ASCII characters, as it travels in an HTTP header"


def is_sendable(text: str) -> bool:
    """A header carries no line break, and no two programs agree on how it carries an umlaut."""
    return text.isascii() and text.isprintable()
