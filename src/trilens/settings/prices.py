"""Where the prices of GPUs and nodes are written."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from trilens.settings.group import Group


class PricesSettings(Group):
    """A running server reads the file again on SIGHUP or a POST to `/-/reload`; hours that were computed with
    another price book are then computed again."""

    file: Path | None = Field(
        default=None,
        description="Your prices: [prices.md](prices.md). Without one, and where none of yours fits, the "
        "list prices that Trilens ships are used, with a warning.",
    )
