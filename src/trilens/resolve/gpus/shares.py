"""How much of a device each of its holders has. The parts of one device never add up to more than 1."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# NVIDIA's MIG guide: compute slices of a device, by model.
_SLICES: Final = (
    (re.compile(r"\bA30\b|RTX PRO 6000"), 4),
    (re.compile(r"\bA100\b|\bA800\b|\b(?:GH|H)(?:100|200|800|20)\b|\b(?:GB|B)(?:100|200|300)\b"), 7),
)
# 3g.40gb; 1g.10gb+me with media engines; 1c.3g.40gb is one compute slice of an instance of three.
_PROFILE: Final = re.compile(r"(?:(?P<compute>\d+)c\.)?(?P<slices>\d+)g\.\d+gb(?:[+-][a-z.]+)*")


def instance_share(profile: str, model: str) -> Fraction | None:
    """What a MIG instance is of its device; None for a profile or a model that is not known."""
    written = _PROFILE.fullmatch(profile)
    whole = next((slices for pattern, slices in _SLICES if pattern.search(model)), None)
    if written is None or whole is None:
        return None
    slices = int(written["compute"] or written["slices"])
    return Fraction(slices, whole) if 0 < slices <= whole else None


def device_shares(
    holders: Mapping[str, int], sizes: Mapping[str, Fraction | None]
) -> dict[str, Fraction | None]:
    """What one holder of each instance has of the device, given how many hold it and how large it is.

    The device itself is the instance "". Holders of one instance have equal parts of it. Where what is held
    would be more than the device, all of it is taken for smaller in proportion; a whole device that is held
    beside instances of it is what these leave.
    """
    known = {name: size for name in holders if name and (size := sizes.get(name)) is not None}
    taken = sum(known.values(), Fraction(0))
    scale = 1 / taken if taken > 1 else Fraction(1)
    shares: dict[str, Fraction | None] = {}
    for name, count in holders.items():
        if name:
            size = known.get(name)
            shares[name] = None if size is None else size * scale / count
        elif len(holders) > len(known) + 1:
            shares[name] = None  # an instance of unknown size has the rest, or a part of it
        else:
            shares[name] = max(1 - taken, Fraction(0)) / count
    return shares
