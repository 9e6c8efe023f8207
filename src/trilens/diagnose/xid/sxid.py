"""SXids: what the NVLink switches of a machine report (sxids.yml)."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Any, Final, NamedTuple

from trilens.model.packaged_yaml import packaged_yaml
from trilens.model.xid import Asks

_UNKNOWN: Final = "unknown"
_PORT: Final = "port"


class SxidMeaning(NamedTuple):
    code: int
    unit: str
    about: str  # what the unit does
    title: str
    asks: Asks
    now: str
    later: str
    is_documented: bool  # beyond the unit that it belongs to


def first_sxid() -> int:
    return int(min(_table()["units"]))


def last_sxid() -> int:
    return int(_table()["end"]) - 1


def sxid(code: int, is_fatal: bool | None = None) -> SxidMeaning | None:
    """`is_fatal` as its line says, which goes before what the table has. None for what no switch says."""
    if not first_sxid() <= code <= last_sxid():
        return None
    table = _table()
    starts = sorted(table["units"])
    unit = table["units"][starts[bisect_right(starts, code) - 1]]
    named = next((name for name, codes in table["codes"].items() if code in codes), _UNKNOWN)
    kind = table["classes"][named]
    asks = Asks(kind["asks"])
    if is_fatal and asks not in (Asks.GPU_RESET, Asks.NODE_OUT):
        kind = table["classes"][_PORT]
        asks = Asks(kind["asks"])
    elif is_fatal is False and asks in (Asks.GPU_RESET, Asks.NODE_OUT):
        kind = table["classes"][_UNKNOWN]
        asks = Asks.LOOK
    title = table["titles"].get(code, kind["title"])
    return SxidMeaning(
        code, unit["name"], unit["about"], title, asks, kind["now"], kind["later"], named != _UNKNOWN
    )


@cache
def _table() -> Any:
    return packaged_yaml("trilens.diagnose.xid", "sxids.yml")
