"""What an API server says on a list and on a watch, up to the objects themselves."""

from __future__ import annotations

from typing import TypeVar

import msgspec

_T = TypeVar("_T")


class Unreadable(Exception):
    """Not what Kubernetes says in this place."""


class ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Bookmark(msgspec.Struct):
    metadata: ListMetadata


class Status(msgspec.Struct):
    """What is said instead of what was asked for."""

    code: int = 0
    message: str = ""


def decode(text: bytes | msgspec.Raw, what: type[_T]) -> _T:
    try:
        return msgspec.json.decode(text, type=what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise Unreadable(str(e)) from e
