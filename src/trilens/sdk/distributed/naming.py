"""Ranks in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NAMED: Final = 16  # the data beside the sentence has them all


def ranks_text(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks[:MOST_NAMED]))
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {named}{more}"
