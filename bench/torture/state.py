"""What came of which row, of which code: known.json beside this file, which goes with the repository, as the
table does that is made of it. What rows have done so far stays in their folders on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bench.torture.row import Outcome, Row

_ROOT: Final = Path(__file__).resolve().parents[2]
OUT: Final = _ROOT / "bench" / "out" / "torture"
KNOWN: Final = Path(__file__).with_name("known.json")
TRIALS: Final = _ROOT / "bench" / "out" / "torture-trials"  # what is not to be written into the table


class State:
    """The best known of each row: what is whole, or missed, stays until something as certain comes."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self.folder = folder
        self._file = file or folder / "state.json"
        self.rows: dict[str, dict[str, Any]] = self._kept()

    def is_missed(self, row: Row, version: str) -> bool:
        kept = self.rows.get(row.name)
        return kept is not None and kept["version"] == version and is_missed(kept)

    def is_done(self, row: Row, version: str) -> bool:
        """Nothing is left to run: it has held for as long as it should, or has missed."""
        kept = self.rows.get(row.name)
        return (
            kept is not None
            and kept["version"] == version
            and (is_missed(kept) or (kept["passed"] and row.is_whole(kept["done"])))
        )

    def begin(self, row: Row, version: str, length: float) -> None:
        """Before it runs, for one that is interrupted."""
        nothing = {"passed": False, "done": 0.0, "told": "interrupted", "more": "", "was_run": False}
        self._keep(row, {"version": version, "of": length, **nothing})

    def end(self, row: Row, version: str, length: float, outcome: Outcome) -> None:
        at = f"{datetime.now(UTC):%Y-%m-%d}"
        self._keep(row, {"version": version, "of": length, "at": at, **asdict(outcome)})

    def _kept(self) -> dict[str, dict[str, Any]]:
        if not self._file.exists():
            return {}
        found: dict[str, dict[str, Any]] = json.loads(self._file.read_text(encoding="utf-8"))
        return found

    def _keep(self, row: Row, told: dict[str, Any]) -> None:
        self.rows = self._kept()  # other rows may run at the same time
        is_certain = is_missed(told) or (told["passed"] and row.is_whole(told["done"]))
        if self.is_done(row, told["version"]) and not is_certain:
            return
        self.rows[row.name] = told
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(dict(sorted(self.rows.items())), indent=1) + "\n", encoding="utf-8")
        beside.replace(self._file)


def is_missed(kept: dict[str, Any]) -> bool:
    return not kept["passed"] and bool(kept.get("was_run", True))
