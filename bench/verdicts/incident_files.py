"""Public incidents: a folder each, with a few lines as the thread shows them and how it was settled.

expected.json has `incident` (the thread), `settled` (what it came to, in our words), and what is expected:
`class` and `layer`; `rank`, `host` and `fix_has` where the lines tell; `cannot_tell` where they do not;
`not_told` where somebody who reads them could tell or guess, and the reader of logs does not (why);
`taken_for` the class that it names in place of the right one, without being sure; `or` other classes that
are as right.

Those in `incidents` were looked at while the reader of logs was made. Those in `incidents_unseen` were
labelled before it was asked about any of them: `first_look` keeps what it said then, and its worth. They
came in three lots, `look` 1 (where it is left out) to 3: it was mended after each, so that the next tells
whether the mends are good for more than what they were made for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.verdicts.labelled import Mark
from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource
from trilens.model.verdict import SURE_FROM, TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.logs.log_verdict import LogVerdict

_TESTS: Final = Path(__file__).parents[2] / "tests" / "diagnose"
FOLDER: Final = _TESTS / "incidents"
UNSEEN: Final = _TESTS / "incidents_unseen"


class FirstLook(NamedTuple):
    """`wanted` is the class of the label at that time: some have got a name of their own since."""

    mark: Mark
    wanted: str
    said: str
    confidence: float


class Incident(NamedTuple):
    name: str
    expected: dict[str, Any]
    logs: tuple[Path, ...]

    def verdict(self) -> LogVerdict:
        return judge_logs(LogSource(one.name, one.read_text().splitlines()) for one in self.logs)

    @property
    def look(self) -> int:
        return int(self.expected.get("look", 1))

    @property
    def also_right(self) -> Sequence[str]:
        return [*self.expected.get("or", ())]

    @property
    def first_look(self) -> FirstLook:
        told = self.expected["first_look"]
        return FirstLook(Mark(told["mark"]), told["wanted"], told["said"], told["confidence"])

    def mark(self, wanted: str, said: str, confidence: float) -> Mark:
        if confidence < TELL_FROM:
            return Mark.RIGHT if self.expected.get("cannot_tell") else Mark.CANNOT_TELL
        if said == wanted or said in self.also_right:
            return Mark.RIGHT
        return Mark.SURE_WRONG if confidence >= SURE_FROM else Mark.UNSURE_WRONG


def incidents() -> list[Incident]:
    """The known ones."""
    return _in(FOLDER)


def unseen() -> list[Incident]:
    return _in(UNSEEN)


def _in(of: Path) -> list[Incident]:
    found = []
    for folder in sorted(of.iterdir()):
        expected = json.loads((folder / "expected.json").read_text())
        logs = tuple(one for one in sorted(folder.iterdir()) if one.name != "expected.json")
        found.append(Incident(folder.name, expected, logs))
    return found
