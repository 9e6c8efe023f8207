"""What a row that is done so many times has done so far, on disk.

A session has data of its own. What it counts becomes the tally's by `keep`, which is to be called when all
that was done since has been looked at: what nobody has checked does not count, however a row ends.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.torture.mounts import remove
from bench.torture.row import MISSES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.torture.row import Wanted

_LONGEST_S: Final = 4.0  # from when it works until it is killed
_TIMES: Final = "times"


class Tally:
    def __init__(self, wanted: Wanted) -> None:
        self._folder = wanted.folder
        self._file = wanted.folder / "tally.json"
        self._length = round(wanted.length)
        kept = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
        self.counts: Counter[str] = Counter(kept)

    @property
    def times(self) -> int:
        return self.counts[_TIMES]

    @property
    def is_over(self) -> bool:
        return self.times >= self._length

    @contextmanager
    def session(self, most: int | None = None) -> Iterator[Session]:
        """So many times at most. Data of the one before goes; that of one that saw what must not be is kept
        as `missed-*`."""
        for old in self._folder.glob("data-*"):
            remove(old)
        folder = self._folder / f"data-{time.time_ns()}"
        folder.mkdir(parents=True)
        left = self._length - self.times
        session = Session(self, folder, left if most is None else min(left, most))
        try:
            yield session
        except MISSES:
            session.is_missed = True
            raise
        finally:
            if session.is_missed:
                folder.rename(folder.with_name(folder.name.replace("data", "missed")))

    def keep(self, counts: Counter[str]) -> None:
        self.counts += counts
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps(self.counts), encoding="utf-8")
        beside.replace(self._file)


class Session:
    """Counts by name, and how often it was done."""

    def __init__(self, tally: Tally, folder: Path, times: int) -> None:
        self.folder = folder
        self.begin = tally.times  # the number of the first time
        self.left = times
        self.is_missed = False  # something was seen in it that must not be, though it went on
        self.rng = random.Random(tally.times)
        self.counts: Counter[str] = Counter()  # that are not kept yet
        self._tally = tally

    def add(self, name: str, amount: int = 1) -> None:
        self.counts[name] += amount

    def done_once(self) -> None:
        self.left -= 1
        self.add(_TIMES)

    def keep(self) -> None:
        self._tally.keep(self.counts)
        self.counts = Counter()

    def moment_s(self) -> float:
        """When it is killed: mostly soon, as that is when most is unfinished."""
        return self.rng.choice((self.rng.uniform(0, 0.5), self.rng.uniform(0, _LONGEST_S)))
