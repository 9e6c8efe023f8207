"""How the ledger is asked where a question does not say."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trilens.settings.group import Group


class LedgerSettings(Group):
    share_fleet: Literal["none", "by-cost"] = Field(
        default="none",
        description="Who pays for GPUs that nobody held: the fleet (`none`), or those who held others of the "
        "cluster on that day, in proportion to what these cost (`by-cost`). `trilens cost --share-fleet` "
        "says otherwise for one question.",
    )
