"""One process's inputs, tried one after the other: counted, and what is wrong with them written down."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from bench.torture.fuzz.target import SLOWEST_S, Forbidden, TooSlow, survives

if TYPE_CHECKING:
    from bench.torture.fuzz.target import Target

_TELL_S: Final = 1.0


class Trial:
    """An input that is wrong is put aside, and the next one is tried: only a hang or a crash of the whole
    process ends it."""

    def __init__(self, target: Target, folder: Path, form: str) -> None:
        self._target = target
        self._folder = folder
        self._form = form
        self._process = psutil.Process()
        self._known = {file.stem for file in (folder / "findings").glob("*.txt")}
        self._inputs = self._taken = 0
        self._slowest_s = 0.0
        self._begun_s = self._told_s = time.monotonic()
        self._latest = (folder / f"latest-{form}").open("wb", buffering=0)
        self._log = (folder / "progress.jsonl").open("a", encoding="utf-8")

    def try_one(self, data: bytes) -> None:
        began_s = time.monotonic()
        self._note(data)
        faulthandler.dump_traceback_later(2 * SLOWEST_S, exit=True)
        try:
            self._taken += survives(self._target, data)
        except (Exception, SystemExit, TooSlow, Forbidden) as e:
            self._found(e, data)
        finally:
            faulthandler.cancel_dump_traceback_later()
        now_s = time.monotonic()
        self._inputs += 1
        self._slowest_s = max(self._slowest_s, now_s - began_s)
        if now_s >= self._told_s + _TELL_S:
            self.tell()

    def _note(self, data: bytes) -> None:
        """For when it ends the whole process, which could not tell of it any more."""
        self._latest.seek(0)
        self._latest.write(data)
        self._latest.truncate()

    def tell(self) -> None:
        self._told_s = time.monotonic()
        told = {
            "form": self._form,
            "process": os.getpid(),
            "t_s": round(self._told_s - self._begun_s, 3),
            "inputs": self._inputs,
            "taken": self._taken,
            "slowest_s": round(self._slowest_s, 3),
            "rss_mb": round(self._process.memory_info().rss / 1e6, 1),
        }
        self._log.write(json.dumps(told) + "\n")
        self._log.flush()

    def _found(self, error: BaseException, data: bytes) -> None:
        """Each kind of error at each place once."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [
            f"{Path(frame.filename).stem}-{frame.lineno}" for frame in frames if "trilens" in frame.filename
        ]
        name = "-".join([type(error).__name__, *places[-2:]])
        if name in self._known:
            return
        self._known.add(name)
        findings = self._folder / "findings"
        (findings / f"{name}.input").write_bytes(data)
        (findings / f"{name}.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        print(f"{self._target.name}: {name}: {error}", file=sys.stderr)
