"""Inputs made of others, by a seed: without coverage to lead them, but the same every time and with no memory
of their own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ODD: Final = (
    b"\x00",
    b"\xff" * 8,
    b'"',
    b"\\",
    b"'",
    b"\n",
    b"{",
    b"}",
    b"[" * 50,
    b"-1",
    b"9" * 30,
    b"NaN",
    b"1e999",
    b"\xed\xa0\x80",  # a lone surrogate
    b"\xf0\x9f\x99\x82",
    b"\x80" * 10,  # a varint without end
)
_MOST_CHANGES: Final = 6


def mutations(seeds: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Each seed as it is, then changed ones without end."""
    yield from seeds
    rng = random.Random(seed)
    while True:
        made = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, _MOST_CHANGES)):
            _change(made, seeds, rng)
        yield bytes(made)


def _change(made: bytearray, seeds: Sequence[bytes], rng: random.Random) -> None:
    at = rng.randint(0, len(made))
    until = min(len(made), at + rng.choice((1, 1, 4, 32, 1024)))
    match rng.randrange(6):
        case 0 if at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        case 1:
            made[at:at] = rng.choice(_ODD)
        case 2:
            del made[at:until]
        case 3:
            made[at:at] = made[at:until] * rng.choice((1, 2, 10))
        case 4:
            other = rng.choice(seeds)
            begin = rng.randint(0, len(other))
            made[at:until] = other[begin : begin + rng.choice((4, 64, 1024))]
        case _:
            made[at:until] = rng.choice(_ODD)
