"""Every Xid of the catalogue, and every SXid of which more than its unit is known."""

from __future__ import annotations

from functools import cache
from itertools import starmap
from typing import TYPE_CHECKING

from tools.docs.text import code, page, table
from trilens.diagnose.xid.sxid import first_sxid, last_sxid, sxid
from trilens.model.xid import XIDS

if TYPE_CHECKING:
    from trilens.diagnose.xid.sxid import SxidMeaning
    from trilens.model.xid import XidMeaning

_ABOUT = """\
Every Xid that Trilens knows, as `trilens xid CODE` explains it, which also says what others hold of it, and
below them [what NVLink switches say](#sxids). What the columns mean, and how whole logs are read, is in
[Xids](../xid.md)."""
_SXIDS = """\
What NVLink switches report, as `trilens xid "SXid CODE"` explains it. Of a code that is not here its unit is
known; whether a line says `Fatal` goes before this table."""


def xids_page() -> str:
    alone = {number: one for number, one in sorted(XIDS.items()) if not one.family}
    rows = [
        (f"[{number}](#xid-{number})", one.title, one.fault.value, code(one.asks.value), one.now)
        for number, one in alone.items()
    ]
    summary = table(("Xid", "what", "whose fault", "asks for", "do at once"), rows)
    families = sorted({one.family for one in XIDS.values() if one.family})
    sections = [*starmap(_section, alone.items()), *map(_family, families), _switches()]
    return page("Xid list", _ABOUT, summary, *sections)


@cache
def known_sxids() -> list[SxidMeaning]:
    every = map(sxid, range(first_sxid(), last_sxid() + 1))
    return [one for one in every if one is not None and one.is_documented]


def _section(number: int, one: XidMeaning) -> str:
    name = f" ({code(one.name)})" if one.name else ""
    return "\n\n".join(filter(None, [f"## Xid {number}", f"**{one.title}**{name}. {one.means}", _later(one)]))


def _family(family: str) -> str:
    """Codes that say the same of another unit."""
    members = {number: one for number, one in sorted(XIDS.items()) if one.family == family}
    first = next(iter(members.values()))
    rows = [(f"{number}", one.title, code(one.name)) for number, one in members.items()]
    told = [f"{first.means} {first.now}", _later(first), table(("Xid", "what", "the driver's name"), rows)]
    return "\n\n".join(filter(None, [f"## Several: {family.replace('-', ' ')}", *told]))


def _switches() -> str:
    rows = [
        (f"{one.code}", f"{one.unit}: {one.about}", one.title, code(one.asks.value), one.now)
        for one in known_sxids()
    ]
    return f"## SXids\n\n{_SXIDS}\n\n{table(('SXid', 'unit', 'what', 'asks for', 'do at once'), rows)}"


def _later(one: XidMeaning) -> str:
    return f"Later: {one.later}" if one.later else ""
