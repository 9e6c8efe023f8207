"""What lies in Secrets and ConfigMaps: read by name, and only those that a monitor names."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from trilens.collect.kubernetes.api import FORBIDDEN, NOT_FOUND
from trilens.collect.kubernetes.rbac import Grant
from trilens.collect.kubernetes.wire import Unreadable, decode
from trilens.model.errors import ConfigError, KubeApiError

if TYPE_CHECKING:
    from trilens.collect.kubernetes.api import KubeApi

_FRESH_S: Final = 300.0  # a rotated password is taken over within this time
_TRY_AGAIN_S: Final = 60.0  # a permission is granted, and a Secret made, by a person
_PLURALS: Final = {"Secret": "secrets", "ConfigMap": "configmaps"}


class Holder(NamedTuple):
    """An object that holds texts by key."""

    kind: Literal["Secret", "ConfigMap"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.namespace}/{self.name}"


class KeyNeeded(Exception):
    """Something in it is needed, and it has not been read yet."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(str(holder))
        self.holder = holder


class _Contents(msgspec.Struct):
    data: dict[str, str] | None = None


class _Read(NamedTuple):
    texts: dict[str, str]
    error: str | None
    good_until_s: float
    complete: bool = True  # every key that was asked for is there

    @property
    def is_good(self) -> bool:
        return self.error is None and self.complete


class Keys:
    """Lives on one event loop. `text` answers from what `read` has fetched."""

    def __init__(self, api: KubeApi, *, fresh_s: float = _FRESH_S) -> None:
        self._api = api
        self._fresh_s = fresh_s
        self._known: dict[Holder, _Read] = {}
        self._due: set[Holder] = set()  # known, and to be read again before it is used
        self._used: set[Holder] = set()

    def text(self, holder: Holder, key: str) -> str:
        """Raises KeyNeeded where it is to be read first, ConfigError where that led to nothing."""
        self._used.add(holder)
        known = self._known.get(holder)
        if known is None or holder in self._due:
            raise KeyNeeded(holder)
        if known.error is not None:
            raise ConfigError(known.error)
        if key not in known.texts:
            try_again_s = asyncio.get_running_loop().time() + _TRY_AGAIN_S
            self._known[holder] = known._replace(
                good_until_s=min(known.good_until_s, try_again_s), complete=False
            )
            raise ConfigError(f"{holder} has no key {key!r}")
        return known.texts[key]

    async def read(self, holder: Holder) -> None:
        path = f"/api/v1/namespaces/{holder.namespace}/{_PLURALS[holder.kind]}/{holder.name}"
        now_s = asyncio.get_running_loop().time()
        before = self._known.get(holder)
        self._due.discard(holder)
        try:
            data = decode(await self._api.get(path), _Contents).data or {}
            texts = {key: _plain(holder, value) for key, value in data.items()}
            self._known[holder] = _Read(texts, None, now_s + self._fresh_s)
        except KubeApiError as e:
            self._known[holder] = _Read({}, _why(holder, e), now_s + _TRY_AGAIN_S)
            if before is not None and before.error is None and e.status not in (FORBIDDEN, NOT_FOUND):
                # A server that is away takes nothing away: what it last said is used meanwhile.
                self._known[holder] = _Read(before.texts, None, now_s + _TRY_AGAIN_S)
        except Unreadable as e:
            self._known[holder] = _Read({}, f"{holder} cannot be read: {e}", now_s + _TRY_AGAIN_S)

    def look_again(self) -> None:
        """Something has changed: what is old or could not be had is read anew when it is asked for; what
        nobody asked for since the last time is forgotten."""
        now_s = asyncio.get_running_loop().time()
        self._known = {holder: read for holder, read in self._known.items() if holder in self._used}
        self._due = {
            holder for holder, read in self._known.items() if not read.is_good or read.good_until_s <= now_s
        }
        self._used.clear()

    def next_look_s(self) -> float | None:
        """In how many seconds something is to be read again; None when nothing was read."""
        if not self._known:
            return None
        soonest = min(read.good_until_s for read in self._known.values())
        return max(0.0, soonest - asyncio.get_running_loop().time())


def _plain(holder: Holder, value: str) -> str:
    if holder.kind == "ConfigMap":
        return value
    try:
        return base64.b64decode(value, validate=True).decode(errors="replace")
    except binascii.Error as e:
        raise Unreadable(f"a key is no base64: {e}") from e


def _why(holder: Holder, error: KubeApiError) -> str:
    if error.status == FORBIDDEN:
        grant = Grant("get", "", _PLURALS[holder.kind], holder.namespace, holder.name)
        return f"{holder} may not be read; {grant}"
    if error.status == NOT_FOUND:
        return f"there is no {holder.kind} {holder.namespace}/{holder.name}"
    return f"{holder} cannot be read: {error.message}"
