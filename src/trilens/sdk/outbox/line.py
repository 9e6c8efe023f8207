"""A batch of records as one line of JSON, and how it is found again in a file that may be torn."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.run_id import RUN_ID_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 1

# As `encode` begins every line: which batch a line is can be told without reading all of it.
_BEGINNING: Final = re.compile(
    rb'\{"v":1,"run":"'
    + RUN_ID_PATTERN.encode()
    + rb'","rank":[0-9]{1,9},"writer":"[0-9a-f]{32}","seq":([0-9]{1,18}),'
)


class Header(NamedTuple):
    """Whose batches these are."""

    run: str
    rank: int
    writer: str  # 32 hex digits, new for each process


class Line(NamedTuple):
    seq: int
    text: bytes  # with the line feed


class Found(NamedTuple):
    """A line in a file, and what lies before it."""

    line: Line
    end: int  # bytes up to its own end
    torn: int  # lines before it that are no batch


class Content(NamedTuple):
    found: list[Found]
    end: int  # bytes up to which it was understood
    torn: int  # lines that are no batch: the end of a file whose writer was killed, a disk that was full

    @property
    def lines(self) -> list[Line]:
        return [found.line for found in self.found]


def encode(header: Header, seq: int | None, t_ms: int, sections: Mapping[str, object]) -> bytes:
    fields = {
        "v": VERSION,
        "run": header.run,
        "rank": header.rank,
        "writer": header.writer,
        "seq": seq,
        "t_ms": t_ms,
        **sections,
    }
    try:
        text = _dumps(fields)
    except ValueError:  # a number that JSON has no word for; rare, so looked for only then
        text = _dumps(_worded(fields))
    return text.encode("utf-8", "replace") + b"\n"  # half a character, of a path that is no text say


def split(content: bytes, *, is_all: bool) -> Content:
    """`is_all`: no more follows, so that a last line without a line feed is torn."""
    found: list[Found] = []
    torn = at = 0
    while (feed := content.find(b"\n", at)) >= 0:
        text = content[at : feed + 1]
        at = feed + 1
        beginning = _BEGINNING.match(text)
        if beginning is None or not text.endswith(b"}\n"):
            torn += 1
        else:
            found.append(Found(Line(int(beginning[1]), text), at, torn))
    if is_all and at < len(content):
        torn += 1
        at = len(content)
    return Content(found, at, torn)


def _dumps(fields: object) -> str:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False, ensure_ascii=False, default=str)


def _worded(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _worded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_worded(inner) for inner in value]
    return value
