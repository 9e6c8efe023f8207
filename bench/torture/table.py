"""The torture table, for people: a section of bench/RESULTS.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bench import report
from bench.torture.state import is_missed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.torture.row import Row

_HEAD: Final = ("row", "what is done", "goal", "outcome", "figures")
_LONGEST: Final = 600  # characters of a cell: an error may carry a whole log, which known.json has


def length_text(amount: float, unit: str) -> str:
    if unit == "times":
        return f"{amount:,.0f} times"
    return f"{amount / 60:,.0f} min" if amount >= 120 else f"{amount:.0f} s"


def section(rows: Sequence[Row], state: Mapping[str, dict[str, Any]], versions: Mapping[str, str]) -> str:
    lines = []
    below = []
    for row in rows:
        kept = state.get(row.name)
        lines.append(
            (f"`{row.name}`", *map(_cell, (row.what, row.goal, *_shown(row, kept, versions[row.name]))))
        )
        if kept is not None and kept["more"]:
            below.append(f"**{row.name}.** {kept['more']}")
    text = (
        "`make torture` runs what has not been run of the code as it is; each row is a command of its own, "
        "`python -m bench.torture ROW`, and can be resumed ([docs/torture.md](../docs/torture.md)). Figures "
        f"marked with a * are of other code than was there when this table was made. {report.machine()}."
    )
    return "\n\n".join(["## Torture", text, report.table(_HEAD, lines), *below])


def verdict(row: Row, kept: dict[str, Any] | None) -> str:
    if kept is None:
        return "not run"
    if is_missed(kept):
        return "missed"
    return "held" if kept["passed"] and row.is_whole(kept["done"]) else "not finished"


def _shown(row: Row, kept: dict[str, Any] | None, version: str) -> tuple[str, str]:
    if kept is None:
        return verdict(row, kept), ""
    found = verdict(row, kept)
    shown = f"**{found}**" if found == "missed" else found
    mark = "" if kept["version"] == version else " *"
    done = length_text(kept["done"], row.unit)
    if found == "not finished":
        return f"{shown}{mark}", f"{done} of it: {kept['told']}"
    return f"{shown}{mark}", f"{done}, {kept.get('at', '')}: {kept['told']}"


def _cell(text: str) -> str:
    """On one line, and without an end before its end."""
    line = " ".join(text.split()).replace("|", "\\|")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST].rstrip(chr(92))} …"


def write(text: str) -> None:
    before = report.RESULTS.read_text(encoding="utf-8")
    report.RESULTS.write_text(report.merged(before, [text]), encoding="utf-8")
