"""From where somebody asks: the connection's other end, and whom a trusted proxy says it asks for."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.reach import plain_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.settings.access import ProxySettings

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address

log = logging.getLogger(__name__)

_REMEMBERED: Final = 1024
_LOG_EVERY_S: Final = 60.0
_WORTH_TELLING_S: Final = 600.0  # what was put right since is no matter any more
_OF_PROXIES: Final = frozenset(
    (b"x-forwarded-for", b"forwarded", b"via", b"x-real-ip", b"x-forwarded-proto", b"x-forwarded-host")
)
_SITE_BITS: Final = 64  # of an IPv6 address: one customer has all below it


class Caller(NamedTuple):
    peer: str
    client: str  # empty where no trusted proxy told one
    is_trusted: bool  # the peer is a trusted proxy, and knows the secret where there is one
    is_passed_on: bool = False  # the peer says that it is a proxy: nobody claims that who is none

    @property
    def site(self) -> str:
        """Whose requests are counted together where nobody is known."""
        return site_of(self.client or self.peer)

    @property
    def is_local(self) -> bool:
        """A program of this machine. One that a proxy speaks for is none, whatever address is told of it."""
        peer = plain_address(self.peer)
        return peer is not None and peer.is_loopback and not self.is_passed_on


def site_of(text: str) -> str:
    address = _address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, _SITE_BITS), strict=False))
    return text


class _Met(NamedTuple):
    peer: str
    at_s: float


class Callers:
    """What anybody but the proxy claims in headers is not looked at."""

    def __init__(
        self,
        proxy: ProxySettings | None = None,
        secret: str | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`secret` is what the proxy sends besides; None where its address is enough."""
        self._clock_s = clock_s
        self._disbelieved: _Met | None = None  # who claimed something without the secret
        self._unnamed: _Met | None = None  # who sent for programs
        self._logged_s = float("-inf")
        networks = [ipaddress.ip_network(one) for one in proxy.trusted] if proxy is not None else []
        self._header = proxy.client_header.lower() if proxy is not None else ""
        self._secret_header = proxy.secret_header.lower() if proxy is not None else ""
        self._secret = secret.encode() if secret is not None else None
        self._of_proxies = _OF_PROXIES | {self._header.encode("latin-1")}
        self._is_set = proxy is not None
        self._claims = frozenset(name.encode("latin-1") for name in proxy.claims) if proxy else frozenset()

        def is_trusted(peer: str) -> bool:
            address = _address(peer)
            if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
                address = address.ipv4_mapped
            return address is not None and any(address in network for network in networks)

        self._is_trusted: Callable[[str], bool] = lru_cache(_REMEMBERED)(is_trusted)

    def trusts(self, peer: str) -> bool:
        """By its address alone, as long as nothing was read from it."""
        return self._is_trusted(peer)

    def of(self, scope: Scope, headers: Headers) -> Caller:
        peer = scope["client"][0] if scope.get("client") else ""
        is_passed_on = not self._of_proxies.isdisjoint(name for name, _ in headers.raw)
        if not self._is_trusted(peer):
            return Caller(peer, "", is_trusted=False, is_passed_on=is_passed_on)
        if not self._knows_secret(headers):
            if not self._claims.isdisjoint(name for name, _ in headers.raw):
                self._note_disbelieved(peer)
            return Caller(peer, "", is_trusted=False, is_passed_on=is_passed_on)
        return Caller(peer, self._client(headers), is_trusted=True, is_passed_on=is_passed_on)

    @property
    def unnamed(self) -> str:
        """A proxy that programs lately sent through, where the settings name none; or empty."""
        return self._lately(self._unnamed)

    @property
    def disbelieved(self) -> str:
        """One at a proxy's address that lately claimed something without the secret; empty where none did."""
        return self._lately(self._disbelieved)

    def _lately(self, met: _Met | None) -> str:
        if met is None or self._clock_s() - met.at_s > _WORTH_TELLING_S:
            return ""
        return met.peer

    def sent(self, caller: Caller) -> None:
        if caller.is_passed_on and not self._is_set:
            self._unnamed = _Met(caller.peer, self._clock_s())

    def take_out_claims(self, scope: Scope) -> None:
        """Of a request that no trusted proxy sent: whoever comes after must not see what it claims."""
        if self._claims:
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in self._claims]

    def _note_disbelieved(self, peer: str) -> None:
        now_s = self._clock_s()
        self._disbelieved = _Met(peer, now_s)
        if now_s - self._logged_s >= _LOG_EVERY_S:
            self._logged_s = now_s
            log.warning(
                "a proxy does not send the secret of access.proxy: nothing that it says is believed",
                extra={"peer": peer, "header": self._secret_header},
            )

    def _knows_secret(self, headers: Headers) -> bool:
        if self._secret is None:
            return True
        given = headers.get(self._secret_header, "").encode("latin-1", "replace")
        return hmac.compare_digest(given, self._secret)

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
