"""Prometheus's hash of a label set, so that limit_ratio() keeps the same series as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5


def fraction_of(labels: Mapping[str, str]) -> float:
    """A number from 0 to 1 that depends on the labels alone. They must come sorted by name."""
    data = b"".join(_sized(text) for pair in labels.items() for text in pair)
    return xxh64(data) / float(_MASK)


def _sized(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) < 255:
        return bytes([len(raw)]) + raw
    return b"\xff" + len(raw).to_bytes(3, "little") + raw


def _rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & _MASK


def _round(acc: int, lane: int) -> int:
    return _rotate((acc + lane * _P2) & _MASK, 31) * _P1 & _MASK


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0."""
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while at + 32 <= size:
            for i in range(4):
                lanes[i] = _round(lanes[i], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        h = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            h = ((h ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        h = _P5
    h = (h + size) & _MASK
    while at + 8 <= size:
        h = (_rotate(h ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        h = (_rotate(h ^ int.from_bytes(data[at : at + 4], "little") * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        h = _rotate(h ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    h = (h ^ h >> 33) * _P2 & _MASK
    h = (h ^ h >> 29) * _P3 & _MASK
    return h ^ h >> 32
