"""The bytes of a GET request, and where they go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

_PORTS: Final = {"http": 80, "https": 443}
_NOT_IN_A_URL: Final = re.compile(r"[\x00-\x20\x7f]")  # a space or a line break would end the request line
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Origin(NamedTuple):
    """What a connection leads to."""

    tls: bool
    host: str
    port: int


class Request(NamedTuple):
    origin: Origin
    head: bytes


def build_request(url: str, headers: Iterable[tuple[str, str]]) -> Request:
    """Path and query are sent as they stand in `url`. ValueError says what cannot be sent."""
    if _NOT_IN_A_URL.search(url):
        raise ValueError("the URL has a space or a control character in it")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError(f"{parts.scheme!r} is neither http nor https")
    if not parts.hostname:
        raise ValueError("the URL names no host")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    default_port = _PORTS[parts.scheme]
    origin = Origin(parts.scheme == "https", host, default_port if parts.port is None else parts.port)
    wanted = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"GET {wanted} HTTP/1.1"]
    given = list(headers)
    if not any(name.lower() == "host" for name, _ in given):
        bracketed = f"[{host}]" if ":" in host else host
        lines.append(f"Host: {bracketed}" + (f":{origin.port}" if origin.port != default_port else ""))
    lines += [_header(name, value) for name, value in given]
    return Request(origin, "\r\n".join([*lines, "", ""]).encode())


def _header(name: str, value: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a header")
    if _NOT_IN_A_VALUE.search(value):  # the value may be a secret: it is not shown
        raise ValueError(f"the value of the header {name!r} has a line break or a control character in it")
    return f"{name}: {value}"
