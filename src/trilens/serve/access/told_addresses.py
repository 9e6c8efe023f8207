"""Addresses that programs tell, for their metrics to be scraped: a program may tell of itself alone.

Whoever may send records is no one who writes settings. Without this, he could have the server ask anything
that it can reach: its own loopback, the credentials of its machine, other machines behind the same wall.
"""

from __future__ import annotations

import logging
import socket
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.datastructures import Headers

from trilens.collect.reach import EVERYWHERE, Reach, plain_address
from trilens.model.errors import Forbidden, IntakeError
from trilens.model.workload import PodKey
from trilens.serve.access.callers import Callers, site_of
from trilens.serve.access.gate import CALLER
from trilens.serve.access.name_lookup import NameLookup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

    from trilens.serve.access.callers import Caller
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_REMEMBERED: Final = 4_096
_UNTOLD: Final = PodKey("", "", "", "")


class Teller(NamedTuple):
    """Who tells of itself."""

    address: str  # the connection's other end, or whom a trusted proxy says that it stands for
    is_local: bool = False  # a program of this machine
    pod: PodKey = _UNTOLD  # that it says to be in, as far as it knows; of a cluster that it may tell of


class ToldAddresses:
    """Of one event loop. `pods` are those that are known, by their addresses, where these count, too."""

    def __init__(
        self,
        settings: Settings,
        pods: Callable[[], Mapping[str, Sequence[PodKey]]] = dict,
        names: NameLookup | None = None,
    ) -> None:
        access = settings.access
        self._networks = (*access.told_networks, *(EVERYWHERE if access.told_addresses == "any" else ()))
        self._pods = pods if access.told_addresses == "pods" else dict
        self._names = names or NameLookup()
        self._own_port = settings.server.address[1]
        self._warned: set[str] = set()

    async def admitted(self, told: str, teller: Teller) -> str:
        """The address that `told`, host:port, stands for; a name is not asked about again.
        Raises Forbidden. Waits a little for a name server where it is a name."""
        host, _, port = told.rpartition(":")
        found = await self._address_of(host.strip("[]"), teller.address)
        if found is None:
            raise Forbidden(f"{told!r} is not scraped: no address is known for it")
        if not self._is_own_word(found, teller):
            raise Forbidden(
                f"{told!r} is not scraped: it is not the address of who tells it, which is {teller.address}, "
                "nor of the pod that it tells of",
                hint="see access.told_addresses and access.told_networks",
            )
        if int(port) == self._own_port and is_here(found):
            raise Forbidden(f"{told!r} is not scraped: that is this server")
        return f"[{found}]:{port}" if ":" in found else f"{found}:{port}"

    async def admitted_or_none(self, told: str, teller: Teller) -> str | None:
        """For what is to be kept all the same."""
        try:
            return await self.admitted(told, teller)
        except (Forbidden, ValueError) as e:
            if told not in self._warned and len(self._warned) < _REMEMBERED:
                self._warned.add(told)
                log.warning("an address that was told is not used", extra={"error": str(e)[:300]})
            return None

    async def _address_of(self, host: str, peer: str) -> str | None:
        if (known := _plain(host)) is not None:
            return known
        found = await self._names.address_of(host, site_of(peer))
        return _plain(found) if found is not None else None

    def _is_own_word(self, found: str, teller: Teller) -> bool:
        address = plain_address(found)
        if address is None:
            return False
        if self._networks and Reach(self._networks).allows(found):
            return True
        if teller.is_local and address.is_loopback:
            return True
        if not Reach().allows(found):  # nor is the metadata service, whoever is said to ask from its address
            return False
        if address == plain_address(teller.address) or (teller.is_local and is_here(found)):
            return True
        return any(_is_it(teller.pod, pod) for pod in self._pods().get(found, ()))


def _is_it(told: PodKey, known: PodKey) -> bool:
    """All that is told of it is so, and says which one it is."""
    return bool(told.name or told.uid) and all(not a or a == b for a, b in zip(told, known, strict=True))


def teller_of(request: Request, pod: PodKey = _UNTOLD) -> Teller:
    caller: Caller | None = request.scope.get(CALLER)
    if caller is None:
        caller = Callers().of(request.scope, Headers(scope=request.scope))
    return Teller(caller.client or caller.peer, caller.is_local, pod)


def is_here(address: str) -> bool:
    """Whether it is one of this machine: nobody else's can be bound."""
    plain = plain_address(address)
    if plain is None:
        return False
    family = socket.AF_INET if plain.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(plain), 0))
        except OSError:
            return False
    return not plain.is_multicast


class PodAddresses:
    """Those of the pods that are followed now, asked for again by who looks at programs."""

    def __init__(self, ask: Callable[[], Mapping[str, Sequence[PodKey]]]) -> None:
        self._ask = ask
        self._known: Mapping[str, Sequence[PodKey]] = {}

    def __call__(self) -> Mapping[str, Sequence[PodKey]]:
        return self._known

    def look(self) -> None:
        try:
            self._known = self._ask()
        except IntakeError as e:
            log.warning("addresses of pods are as they were", extra={"error": str(e)})


@lru_cache(_REMEMBERED)
def _plain(text: str) -> str | None:
    plain = plain_address(text)
    return str(plain) if plain is not None else None
