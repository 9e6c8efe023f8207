"""From where somebody asks: the connection's other end, and whom a trusted proxy says it asks for."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.settings.access import ProxySettings

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_REMEMBERED: Final = 1024
_SITE_BITS: Final = 64  # of an IPv6 address: one customer has all below it


class Caller(NamedTuple):
    peer: str
    client: str  # empty where no trusted proxy told one
    is_trusted: bool  # the peer is a trusted proxy

    @property
    def site(self) -> str:
        """Whose requests are counted together where nobody is known."""
        return site_of(self.client or self.peer)


def site_of(text: str) -> str:
    address = _address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, _SITE_BITS), strict=False))
    return text


class Callers:
    """`trusted` are networks of proxies. What anybody else claims in headers is not looked at."""

    @classmethod
    def through(cls, proxy: ProxySettings | None) -> Callers:
        return cls() if proxy is None else cls(proxy.trusted, proxy.client_header)

    def __init__(self, trusted: Sequence[str] = (), client_header: str = "X-Forwarded-For") -> None:
        networks = [ipaddress.ip_network(one) for one in trusted]
        self._header = client_header.lower()

        def is_trusted(peer: str) -> bool:
            address = _address(peer)
            if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
                address = address.ipv4_mapped
            return address is not None and any(address in network for network in networks)

        self._is_trusted: Callable[[str], bool] = lru_cache(_REMEMBERED)(is_trusted)

    def trusts(self, peer: str) -> bool:
        return self._is_trusted(peer)

    def of(self, scope: Scope, headers: Headers) -> Caller:
        peer = scope["client"][0] if scope.get("client") else ""
        if not self._is_trusted(peer):
            return Caller(peer, "", is_trusted=False)
        return Caller(peer, self._client(headers), is_trusted=True)

    def _client(self, headers: Headers) -> str:
        """The last that is no proxy of ours: those before it were told by who asks."""
        told = [one.strip() for line in headers.getlist(self._header) for one in line.split(",")]
        for one in reversed(told):
            if _address(one) is None:
                return ""
            if not self._is_trusted(one):
                return one
        return ""


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
