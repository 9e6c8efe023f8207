"""Something that Trilens depends on is away, slow, or answers nonsense, through a proxy of ours.

While it lasts the rest works, all the time, and Trilens says what is missing; afterwards all is caught up.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench.torture.away_parts import DEPENDENCIES
from bench.torture.dependency import Surroundings
from bench.torture.fault_proxy import Fault
from bench.torture.row import MISSES, Outcome, Row, Wanted
from bench.torture.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.torture.dependency import Dependency

_FAULTS: Final = (Fault.REFUSE, Fault.HANG, Fault.TRICKLE, Fault.GARBAGE)
_LOOK_S: Final = 1.0
_PATIENCE_S: Final = 300.0
_EACH_S: Final = 120.0  # "away for minutes"
_MISSED: Final = "MISSED"


def _run(kind: type[Dependency], wanted: Wanted) -> Outcome:
    done = Done(wanted.folder / "done.json")
    each = Wanted(wanted.folder, wanted.length / len(_FAULTS))
    left = [fault for fault in _FAULTS if not each.is_whole(done.seconds(fault))]
    if left:
        with Tally(wanted).session() as session, Surroundings(session.folder) as around:
            dependency = kind.begin(around)
            dependency.meanwhile()
            _soon(dependency.has_caught_up, f"{dependency.name} does not work to begin with")
            for fault in left:
                began_s = time.monotonic()
                told = _met(dependency, fault, each.length)
                done.note(fault, min(each.length, time.monotonic() - began_s), told)
                session.is_missed |= told.startswith(_MISSED)
    told = "; ".join(f"{fault}: {done.told(fault)}" for fault in _FAULTS)
    return Outcome(_MISSED not in told, sum(done.seconds(fault) for fault in _FAULTS), told)


class Done:
    """What came of each fault, and how long it lasted: one that was tried for a while is met again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def seconds(self, fault: Fault) -> float:
        return float(self._kept[fault]["seconds"]) if fault in self._kept else 0.0

    def told(self, fault: Fault) -> str:
        return str(self._kept[fault]["told"])

    def note(self, fault: Fault, seconds: float, told: str) -> None:
        self._kept[fault] = {"seconds": seconds, "told": told}
        self._file.write_text(json.dumps(self._kept), encoding="utf-8")


def _met(dependency: Dependency, fault: Fault, seconds: float) -> str:
    """Also what went wrong: the other faults are met all the same."""
    try:
        return _meet(dependency, fault, seconds)
    except MISSES as e:
        dependency.proxy.set(Fault.NONE)
        dependency.meanwhile()
        _soon(dependency.has_caught_up, f"{dependency.name} does not come back after {fault}: {e!r}")
        return f"{_MISSED}: {str(e) or repr(e)}"


def _meet(dependency: Dependency, fault: Fault, seconds: float) -> str:
    """What was seen; AssertionError where it is not as it should be."""
    began_s = time.monotonic()
    dependency.proxy.set(fault)
    dependency.meanwhile()
    said_s: float | None = None
    looks = 0
    while time.monotonic() - began_s < seconds or (said_s is None and fault is not Fault.TRICKLE):
        dependency.check_the_rest()
        looks += 1
        if said_s is None and dependency.says_so():
            said_s = time.monotonic() - began_s
        assert time.monotonic() - began_s < seconds + _PATIENCE_S, (
            f"{dependency.name}, {fault}: nobody says so"
        )
        time.sleep(_LOOK_S)
    dependency.proxy.set(Fault.NONE)
    back_s = time.monotonic()
    _soon(dependency.has_caught_up, f"{dependency.name}, {fault}: what happened meanwhile is not caught up")
    _soon(lambda: not dependency.says_so(), f"{dependency.name}, {fault}: it is still said to be away")
    said = "worked on" if said_s is None else f"said after {said_s:.0f} s"
    took_s = time.monotonic() - back_s
    return f"{said}, caught up {took_s:.0f} s after its end, the rest worked {looks} times of {looks}"


def _soon(condition: Callable[[], bool], otherwise: str) -> None:
    ends_s = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < ends_s, otherwise
        time.sleep(_LOOK_S)


AWAY_ROWS: Final = tuple(
    Row(
        f"away-{kind.row}",
        f"{kind.what}: away, silent, slow, answering nonsense",
        "the rest works, what is missing is said, all is caught up",
        _EACH_S * len(_FAULTS),
        "s",
        partial(_run, kind),
    )
    for kind in DEPENDENCIES
)
