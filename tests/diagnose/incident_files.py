"""Public incidents: a folder each, with a few lines as the thread shows them and how it was settled.

expected.json has `incident` (the thread), `settled` (what it came to, in our words), and what is expected:
`class` and `layer`; `rank`, `host` and `fix_has` where the lines tell; `cannot_tell` where they do not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource

if TYPE_CHECKING:
    from trilens.diagnose.logs.log_verdict import LogVerdict

FOLDER: Final = Path(__file__).parent / "incidents"


class Incident(NamedTuple):
    name: str
    expected: dict[str, Any]
    logs: tuple[Path, ...]

    def verdict(self) -> LogVerdict:
        return judge_logs(LogSource(one.name, one.read_text().splitlines()) for one in self.logs)


def incidents() -> list[Incident]:
    found = []
    for folder in sorted(FOLDER.iterdir()):
        expected = json.loads((folder / "expected.json").read_text())
        logs = tuple(one for one in sorted(folder.iterdir()) if one.name != "expected.json")
        found.append(Incident(folder.name, expected, logs))
    return found
