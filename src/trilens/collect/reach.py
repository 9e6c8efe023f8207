"""Where requests may go whose address somebody told who may not write settings.

The address that counts is the one that is connected to: a name is resolved once, and checked then, so that no
answer of a name server, no redirect and no proxy leads anywhere else.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
    IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

EVERYWHERE: Final = ("0.0.0.0/0", "::/0")
LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
# What no program or pod has for an address of its own, but machines trust: loopback, where clouds hand out
# the credentials of the machine, and IPv6 addresses of which something on the way makes IPv4 ones.
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *LOOPBACK,
            "0.0.0.0/8",
            "169.254.0.0/16",
            "fe80::/10",
            "224.0.0.0/4",
            "ff00::/8",
            "255.255.255.255/32",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::/32",  # AWS: its metadata, credentials of pods, names and time
            "fd20:ce::254/128",  # Google Cloud
            "fd00:c1::/32",  # Oracle
            "::/96",
            "64:ff9b:1::/48",
        ),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_REMEMBERED: Final = 4_096


@dataclass(frozen=True, slots=True)
class Reach:
    """Networks, each as 10.0.0.0/8 is written. What is special is reached only where a network that is
    special as a whole is named."""

    networks: tuple[str, ...] = EVERYWHERE

    def allows(self, address: str) -> bool:
        return _allows(self.networks, address)

    def socket_for(self, found: tuple[Any, ...]) -> socket.socket:
        """For one of getaddrinfo's answers. Raises OSError where it may not be connected to."""
        family, kind, protocol, _, where = found
        if not self.allows(where[0]):
            raise PermissionError(0, f"{where[0]} is not for targets that programs or clusters tell of")
        return socket.socket(family, kind, protocol)


def plain_address(text: str) -> IpAddress | None:
    """None where it is none. IPv4 in the clothes of IPv6 is IPv4, and a zone says nothing."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


@lru_cache(_REMEMBERED)
def _allows(networks: tuple[str, ...], text: str) -> bool:
    address = plain_address(text)
    if address is None:
        return False
    around = [one for one in map(ipaddress.ip_network, networks) if address in one]
    special = [one for one in _SPECIAL if address in one]
    return any(_is_within(one, special) for one in around) if special else bool(around)


def _is_within(network: IpNetwork, others: Iterable[IpNetwork]) -> bool:
    return any(
        network.version == other.version and network.subnet_of(other)  # type: ignore[arg-type]
        for other in others
    )
