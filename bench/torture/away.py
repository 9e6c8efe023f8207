"""Something that Trilens depends on is away, slow, or answers nonsense, through a proxy of ours.

Before a fault nobody says that anything is wrong. While it lasts the rest works, and Trilens says what is
missing, soon and until its end; afterwards all is caught up.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench.torture.away_parts import DEPENDENCIES
from bench.torture.dependency import LOOK_S, TIMEOUT_S, Surroundings, soon
from bench.torture.fault_proxy import Fault
from bench.torture.row import MISSES, Outcome, Row, Wanted
from bench.torture.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

    from bench.torture.dependency import Dependency

# A freeze first: what is under way arrives after it, also what was given up, of which there was none before.
_FAULTS: Final = (Fault.FREEZE, Fault.REFUSE, Fault.HANG, Fault.TRICKLE, Fault.GARBAGE)
_EACH_S: Final = 120.0  # "away for minutes"
_MISSED: Final = "MISSED"
_TRACEBACK: Final = "Traceback (most recent call last)"


def _run(kind: type[Dependency], wanted: Wanted) -> Outcome:
    done = Done(wanted.folder / "done.json")
    each = Wanted(wanted.folder, wanted.length / len(_FAULTS))
    left = [fault for fault in _FAULTS if not each.is_whole(done.seconds(fault))]
    if left:
        with Tally(wanted).session() as session, Surroundings(session.folder) as around:
            dependency = kind.begin(around)
            dependency.meanwhile()
            soon(dependency.has_caught_up, f"{dependency.name} does not work to begin with")
            for fault in left:
                began_s = time.monotonic()
                try:
                    told = _met(dependency, fault, each.length)
                except MISSES as e:  # it does not come back, so that there is nothing to try the others on
                    session.is_missed = True
                    return _outcome(done, f"{_MISSED}: {str(e) or repr(e)}")
                done.note(fault, min(each.length, time.monotonic() - began_s), told)
                session.is_missed |= told.startswith(_MISSED)
            if _TRACEBACK in around.log():
                session.is_missed = True
                return _outcome(done, f"{_MISSED}: a defect is in the server's log")
    return _outcome(done)


def _outcome(done: Done, *more: str) -> Outcome:
    told = "; ".join([*(f"{fault}: {done.told(fault)}" for fault in _FAULTS if done.seconds(fault)), *more])
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
        dependency.meets(Fault.NONE)
        dependency.meanwhile()
        soon(dependency.has_caught_up, f"{dependency.name} does not come back after {fault}: {e!r}")
        soon(dependency.is_well, f"{dependency.name} is still said to be away after {e!r}")
        return f"{_MISSED}: {str(e) or repr(e)}"


def _meet(dependency: Dependency, fault: Fault, seconds: float) -> str:
    """What was seen; AssertionError where it is not as it should be."""
    dependency.prepare()
    assert dependency.is_well(), (
        f"{dependency.name}: it is said to be away before it is: {'; '.join(dependency.problems())}"
    )
    dependency.meets(fault)
    dependency.meanwhile()
    seen = _seen(dependency, fault, seconds)
    dependency.meets(Fault.NONE)
    back_s = time.monotonic()
    soon(dependency.has_caught_up, f"{dependency.name}, {fault}: what happened meanwhile is not caught up")
    soon(dependency.is_well, f"{dependency.name}, {fault}: it is still said to be away")
    return f"{seen}, caught up {time.monotonic() - back_s:.0f} s after its end"


def _seen(dependency: Dependency, fault: Fault, seconds: float) -> str:
    """While it lasts, which is until somebody says so. What is slow works: that may be said, or not."""
    began_s = time.monotonic()
    said_s: float | None = None
    looks = silent = 0
    while time.monotonic() - began_s < seconds or (said_s is None and fault is not Fault.TRICKLE):
        believed = dependency.believed()
        dependency.check_the_rest()
        looks += 1
        asked_s = time.monotonic() - began_s  # how long the doctor takes does not count
        unsaid = dependency.unsaid()
        if said_s is not None:
            silent += bool(unsaid - believed - dependency.believed())
        elif not unsaid:
            said_s = time.monotonic() - began_s
        elif fault is not Fault.TRICKLE:
            assert asked_s < dependency.told_s + TIMEOUT_S, (
                f"{dependency.name}, {fault}: nobody says so after {asked_s:.0f} s: {', '.join(unsaid)}"
            )
        time.sleep(LOOK_S)
    if said_s is None:
        return f"worked on, the rest worked {looks} times of {looks}"
    assert not silent or fault is Fault.TRICKLE, (
        f"{dependency.name}, {fault}: said after {said_s:.0f} s, and in {silent} of {looks} looks no more"
    )
    return f"said after {said_s:.0f} s, the rest worked {looks} times of {looks}"


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
