"""The body of an OTLP/HTTP request: protobuf or JSON, plain or gzip, into the message it holds."""

from __future__ import annotations

import binascii
import zlib
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError, Message

from trilens.model.errors import OtlpError, OtlpUnsupported

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M", bound=Message)

MAX_BODY_BYTES: Final = 128 * 1024 * 1024  # unpacked
_GZIP: Final = zlib.MAX_WBITS | 16


class Encoding(Enum):
    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


def encoding_of(content_type: str) -> Encoding:
    kind = content_type.partition(";")[0].strip().lower()
    try:
        return Encoding(kind)
    except ValueError:
        known = " and ".join(one.value for one in Encoding)
        raise OtlpUnsupported(f"content type {content_type!r}; known are {known}") from None


def unpacked(body: bytes, content_encoding: str) -> bytes:
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise OtlpUnsupported(f"content encoding {content_encoding!r}; known is gzip")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(body, MAX_BODY_BYTES)
    except zlib.error as e:
        raise OtlpError(f"the body is not gzip: {e}") from e
    if unpacker.unconsumed_tail:
        raise OtlpError(f"the body has more than {MAX_BODY_BYTES:,} bytes unpacked")
    if not unpacker.eof:
        raise OtlpError("the body is not gzip: it ends too early")
    if unpacker.unused_data:
        raise OtlpError("the body goes on behind its gzip: send it as one piece")
    return data


def read_message(make: Callable[[], M], data: bytes, encoding: Encoding) -> M:
    message = make()
    try:
        if encoding is Encoding.PROTOBUF:
            message.ParseFromString(data)
        else:
            told = orjson.loads(data)
            if not isinstance(told, dict):
                raise ParseError("it is no object")
            # OTLP's JSON has ids in hexadecimal, which protobuf reads as base64: other bytes, but the same
            # for the same id, and ids are only compared.
            ParseDict(told, message, ignore_unknown_fields=True)
    except (DecodeError, ParseError, orjson.JSONDecodeError, binascii.Error, TypeError) as e:
        raise OtlpError(f"the body is not an {message.DESCRIPTOR.name}: {e}") from e
    return message


def write_message(message: Message, encoding: Encoding) -> bytes:
    if encoding is Encoding.PROTOBUF:
        return message.SerializeToString()
    return orjson.dumps(MessageToDict(message))


def write_status(text: str, encoding: Encoding) -> bytes:
    """google.rpc.Status with its message alone, which is how OTLP says what is wrong."""
    if encoding is Encoding.JSON:
        return orjson.dumps({"message": text})
    octets = text.encode("utf-8", "replace")
    return b"\x12" + _varint(len(octets)) + octets


def _varint(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)
