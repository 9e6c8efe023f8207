"""Protobuf messages by field number: enough to read, in pure Python, one that is known to be small."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[int, list[bytes]]  # of fields with a length: texts and messages; numbers are passed over


class WireError(ValueError):
    """Bytes that are no protobuf message."""


def read_message(data: bytes) -> Message:
    fields: Message = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, shape = tag >> 3, tag & 7
        if shape == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise WireError(f"field {number} is longer than its message")
            fields.setdefault(number, []).append(data[at : at + size])
            at += size
        elif shape == 0:
            _, at = _varint(data, at)
        elif shape in (1, 5):
            at += 8 if shape == 1 else 4
        else:
            raise WireError(f"field {number} has the unknown shape {shape}")
    if at > len(data):
        raise WireError("the message ends inside a number")
    return fields


def messages(message: Message, field: int) -> Iterator[Message]:
    return (read_message(data) for data in message.get(field, ()))


def texts(message: Message, field: int) -> list[str]:
    return [data.decode("utf-8", "replace") for data in message.get(field, ())]


def text(message: Message, field: int) -> str:
    """Empty where it is not there, as protobuf has it."""
    return next(reversed(texts(message, field)), "")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise WireError("the message ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a number is longer than ten bytes")
