"""What a GPU draws while a program holds it and computes nothing, by family.

A kernel that only waits, as a collective does whose partner never comes, keeps a GPU at 100 % and draws
little more than this: an H200 drew 82 W with no program on it, 124 W with one that did nothing, and 124, 135
and 141 W with 1, 24 and 132 blocks that waited (measured on 2026-11-15, driver 580.159).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LITTLE_MORE: Final = 1.2  # all SMs waiting drew 1.14 times what an idle program did

# Watts in P0 at 0 %: of the H200 measured, of the others about what nvidia-smi printed in public logs of idle
# programs (A100, A10G, L4, T4, V100). Where these only show GPUs without a program (B200 at 140, H100 at 70,
# L40S at 30, H20, A40): more, as it is on those that are known both ways.
_WATTS: Final = (
    (r"\bG?B[23]00\b", 185.0),
    (r"\bG?H200\b", 124.0),
    (r"\bH[18]00\b", 110.0),
    (r"\bH20\b", 110.0),
    (r"\bA[18]00\b", 75.0),
    (r"\bL40S?\b", 85.0),
    (r"\bL4\b", 30.0),
    (r"\bA10G?\b", 60.0),
    (r"\bA40\b", 75.0),
    (r"\bT4\b", 31.0),
    (r"\bV100\b", 55.0),
)


@lru_cache(maxsize=256)
def waiting_watts(model: str) -> float | None:
    """Up to so many watts a GPU at 100 % only waits; None for a model that nobody looked at."""
    found = next((watts for pattern, watts in _WATTS if re.search(pattern, model)), None)
    return found * LITTLE_MORE if found is not None else None
