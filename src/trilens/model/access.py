"""Who may ask: the checks on a request's headers that everything with an HTTP endpoint makes.

A web page in a browser on this machine can reach loopback too. Where there is no token, its Host header gives
it away: when it tricks DNS into pointing at 127.0.0.1, its requests carry the page's own name.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress


def carries_token(authorization: str, token: bytes) -> bool:
    given = carried_token(authorization)
    return given is not None and hmac.compare_digest(given, token)


def carried_token(authorization: str) -> bytes | None:
    """A bearer token, or basic auth with any user and the token as password."""
    scheme, _, value = authorization.partition(" ")
    given = value.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(given, validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    return given if scheme.lower() == "bearer" else None


def names_known_host(host: str, known: frozenset[str]) -> bool:
    """Whether a Host header, in lower case, means this machine or one of the `known` names."""
    bracketed = host.startswith("[") and "]" in host
    name = host[1 : host.index("]")] if bracketed else host.partition(":")[0]
    return name in known or host in known or is_loopback(name)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
