"""Which lines are worth a look. Most lines of a log are like thousands before them but for their numbers: of
each shape one is looked through for all words that may tell something, and the others are known by it."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.logs import endings, job_facts, tracebacks, watchdog
from trilens.diagnose.logs.signs import all_signs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trilens.diagnose.logs.signs import Sign

INFO: Final = " NCCL INFO "
CHAINED: Final = ("During handling of the above exception", "The above exception was the direct cause")
IGNORED: Final = "Exception ignored in"
RESTARTS: Final = "will restart worker group"  # of torchrun: all processes are started again

_BEGINS: Final = (
    tracebacks.BEGINS, tracebacks.DUMP, *endings.SAYS, *endings.ROWS, *watchdog.SAYS, *CHAINED, IGNORED,
    RESTARTS,
)  # fmt: skip
_POINTER: Final = re.compile(rb"0x[0-9a-f]*")
_SMALL: Final = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_LEFT_OUT: Final = string.digits.encode() + b" -_"
_LONGEST: Final = 600  # characters: longer lines are seldom alike
_MOST: Final = 20_000  # shapes that are remembered: a log of more has none


class Worth(NamedTuple):
    """What a line may have. The words are to be looked for in the line itself: numbers may be among them."""

    signs: tuple[Sign, ...] = ()
    begins: bool = False  # or is of something that goes over several lines
    facts: bool = False  # of the job


class Shapes:
    """Of all logs: those of one job are alike."""

    def __init__(self) -> None:
        self._known: dict[bytes, Worth | None] = {}
        self._signs = [(_shape(sign.has), sign) for sign in all_signs()]
        self._info_signs = [(shape, sign) for shape, sign in self._signs if sign.info]
        self._info = _shape(INFO)
        self._begins = [_shape(word) for word in _BEGINS]
        self._info_facts = [_shape(word) for word in job_facts.IN_INFO]
        self._facts = [_shape(word) for word in job_facts.SAYS]
        self.have_nccl = False  # whether there are lines of NCCL's own at level INFO

    def worth(self, lines: Sequence[str]) -> list[Worth | None]:
        """Of each line; None for one that has nothing."""
        shapes = [_shape(line) for line in lines]
        if len(self._known) >= _MOST:
            self._known.clear()
        new = {shape for shape in shapes if shape not in self._known}
        learned = self._look(new) if new else {}
        worth = [learned[shape] if shape in learned else self._known[shape] for shape in shapes]
        self._known.update((shape, one) for shape, one in learned.items() if len(shape) <= _LONGEST)
        return worth

    def _look(self, new: Collection[bytes]) -> dict[bytes, Worth | None]:
        """All of them are looked through at once for each word: most words are in none."""
        together = b"\n".join(new)
        self.have_nccl = self.have_nccl or self._info in together
        signs, info_signs = (
            [(has, sign) for has, sign in table if has in together]
            for table in (self._signs, self._info_signs)
        )
        begins, info_facts, facts = (
            [word for word in words if word in together]
            for words in (self._begins, self._info_facts, self._facts)
        )
        return {
            shape: _worth(shape, info_signs, (), info_facts)
            if self._info in shape
            else _worth(shape, signs, begins, facts)
            for shape in new
        }


def _worth(
    shape: bytes, signs: Sequence[tuple[bytes, Sign]], begins: Sequence[bytes], facts: Sequence[bytes]
) -> Worth | None:
    worth = Worth(
        tuple([sign for has, sign in signs if has in shape]),
        any(word in shape for word in begins),
        any(word in shape for word in facts),
    )
    return worth if any(worth) else None


def _shape(text: str) -> bytes:
    """Its letters (signs.py) without its numbers. What is in a text, is in its shape too. As bytes, because
    it is done to each line of each log, and text takes ten times as long."""
    shape = text.encode("utf-8", "replace")
    if b"0x" in shape:
        shape = _POINTER.sub(b"", shape)
    return shape.translate(_SMALL, _LEFT_OUT)
