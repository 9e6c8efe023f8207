"""The framing of TensorBoard's event files: length, its checksum, the record, its checksum."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from trilens.model.errors import TrackerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER: Final = struct.Struct("<QI")
_FOOTER: Final = struct.Struct("<I")
_LARGEST: Final = 64 << 20  # an image or a graph may be some megabytes; more is a damaged length
_WITH_NUMBERS: Final = 256 << 10  # what is larger is an image, a graph or a sound


def records(data: bytes, *, at: int = 0) -> Iterator[tuple[bytes, int]]:
    """Each whole record with where the next begins. A record that is cut off is not there yet. One that is
    too large to be of numbers is given as nothing: a checksum over megabytes takes Python seconds."""
    start = 0
    while start + _HEADER.size <= len(data):
        size, check = _HEADER.unpack_from(data, start)
        if _masked_crc(data[start : start + 8]) != check:
            raise TrackerError(f"no record of an event file at byte {at + start}")
        if size > _LARGEST:
            raise TrackerError(f"a record of {size} bytes at byte {at + start}")
        end = start + _HEADER.size + size + _FOOTER.size
        if end > len(data):
            return
        record = data[start + _HEADER.size : end - _FOOTER.size] if size <= _WITH_NUMBERS else b""
        if record and _masked_crc(record) != _FOOTER.unpack_from(data, end - _FOOTER.size)[0]:
            raise TrackerError(f"a damaged record at byte {at + start}")
        yield record, at + end
        start = end


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE: Final = _crc32c_table()


def _masked_crc(data: bytes) -> int:
    """CRC-32C, which the standard library has not, masked as these files mask it."""
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
