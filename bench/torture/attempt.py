"""A row, run by one command or by several that go on where the one before was interrupted."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Final

import pytest

from bench.torture.mounts import remove
from bench.torture.row import MISSES, Outcome, Wanted

if TYPE_CHECKING:
    from pathlib import Path

    from bench.torture.row import Row
    from bench.torture.state import State

_STAYS: Final = "corpus-*"  # what a fuzzer has learnt of inputs is good for any code


class Attempt:
    """The folder of a row: it knows of which code it is, and what was missed in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._version = folder / "version"
        self._missed = folder / "missed.json"

    def begin(self, version: str, *, resume: bool) -> None:
        """Half of a run of other code says nothing about this one, and what is not resumed begins with
        nothing: what an earlier run has left is not to be counted by the next one that is resumed."""
        if not resume or not self._version.exists() or self._version.read_text("utf-8") != version:
            self._empty()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._version.write_text(version, encoding="utf-8")

    def judged(self, outcome: Outcome) -> Outcome:
        """What was seen once is not unseen by going on: it stays missed, and is told."""
        missed = self.missed
        if outcome.is_missed and outcome.told not in missed:
            missed.append(outcome.told)
            self._missed.write_text(json.dumps(missed), encoding="utf-8")
        if not missed:
            return outcome
        told = "; ".join(dict.fromkeys((*missed, outcome.told)))
        return Outcome(False, outcome.done, told, outcome.more)

    @property
    def missed(self) -> list[str]:
        return [*json.loads(self._missed.read_text(encoding="utf-8"))] if self._missed.exists() else []

    def _empty(self) -> None:
        if not self.folder.exists():
            return
        learnt = {*self.folder.glob(_STAYS)}
        for one in self.folder.iterdir():
            if one not in learnt:
                remove(one) if one.is_dir() else one.unlink()


def run(row: Row, length: float, *, resume: bool, state: State, version: str) -> Outcome:
    """It ends with an outcome, whatever happens to it, so that the others are run."""
    attempt = Attempt(state.folder / row.name)
    attempt.begin(version, resume=resume)
    state.begin(row, version, length)
    try:
        outcome = row.run(Wanted(attempt.folder, length))
    except MISSES as e:
        traceback.print_exc()
        outcome = Outcome(False, 0.0, str(e) or repr(e))
    # Something that it needs is not here; the tests' own parts say so by skipping.
    except (Exception, pytest.skip.Exception) as e:
        traceback.print_exc()
        outcome = Outcome(False, 0.0, f"could not be run: {e!r}", was_run=False)
    outcome = attempt.judged(outcome)
    state.end(row, version, length, outcome)
    return outcome
