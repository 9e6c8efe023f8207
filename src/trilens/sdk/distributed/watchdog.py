"""The thread that notices that steps have stopped, and gathers evidence while it is there to be had.

It never ends anything: it writes down where every thread is, asks PyTorch which collectives are under way,
sends both, and says so. Each stall is told once, and so is its end.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from trilens.sdk.distributed.bounded import within
from trilens.sdk.distributed.naming import ranks_text
from trilens.sdk.distributed.peers import ALL_HAVE_TOLD_S
from trilens.sdk.distributed.recorded_collectives import dump_collectives
from trilens.sdk.distributed.stacks import StacksFile
from trilens.sdk.distributed.stall import Limits, Moment, StepClock
from trilens.sdk.recorder import MAX_ARTIFACT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from trilens.sdk.distributed.whereabouts import Whereabouts
    from trilens.sdk.recorder import Recorder

_LOOK_S: Final = 5.0
_MOST_GROUPS: Final = 64
_ASK_S: Final = 2.0  # for where the other ranks are
_LOOKS_A_LIMIT: Final = 4  # looks within the shortest limit
_DEBUGGERS: Final = frozenset({"pdb", "bdb", "IPython.core.debugger", "pydevd", "debugpy", "ipdb"})


class Watchdog:
    def __init__(
        self,
        recorder: Recorder,
        limits: Limits,
        *,
        total_steps: int | None = None,
        whereabouts: Callable[[], list[Whereabouts]] = list,
    ) -> None:
        self._recorder = recorder
        self._whereabouts = whereabouts
        self._total_steps = total_steps
        self._limits = limits
        self._clock = StepClock(time.monotonic(), limits)
        self._look_s = min(_LOOK_S, limits.least_s / _LOOKS_A_LIMIT)
        self._looked_s = time.monotonic()
        self._stalled_s: float | None = None  # since when, while it lasts
        self._stop = threading.Event()
        self._stacks = StacksFile(recorder.options.spool_dir / "stacks", recorder.run_id, recorder.rank)
        self._thread = threading.Thread(target=self._loop, name="trilens-watchdog", daemon=True)

    def start(self) -> None:
        self._show(stalled=False)
        self._stacks.arm(self._limits.least_s)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=1.0)
        self._stacks.close()

    def _loop(self) -> None:
        self._recorder.guard.run("stacks", self._stacks.clear_old)
        self._recorder.guard.run("stacks", self._send_stacks_of_others)  # of a life before this one
        while not self._stop.wait(self._look_s):
            self._recorder.guard.run("watchdog", self._look)
        if self._stalled_s is not None:  # steps may have gone on since, and the run ended soon after
            self._recorder.guard.run("watchdog", self._look)

    def _look(self) -> None:
        if self._recorder.silent:
            return
        now_s = time.monotonic()
        stood_still_s, self._looked_s = now_s - self._looked_s, now_s
        written = self._stacks.take()
        self._stacks.arm(self._limits.least_s)
        if written or stood_still_s > self._limits.least_s:
            self._tell_frozen(stood_still_s, written)
        moved = self._clock.see(self._moment(now_s))
        if moved and self._stalled_s is not None:
            self._tell_moving(now_s)
        elif self._stalled_s is not None:
            self._send_stacks_of_others()
        elif self._clock.is_stalled(now_s) and not self._is_done() and not is_being_debugged():
            self._tell_stalled(now_s)

    def _show(self, *, stalled: bool) -> None:
        self._recorder.gauge(
            "trilens_stalled", "1 while steps have stopped for longer than they may.", float(stalled)
        )

    def _is_done(self) -> bool:
        """Whether no step is to come: what the program does after its last one may take any time."""
        recorder = self._recorder
        return (
            self._total_steps is not None
            and recorder.step is not None
            and not recorder.in_step
            and recorder.step + 1 >= self._total_steps
        )

    def _moment(self, now_s: float) -> Moment:
        recorder = self._recorder
        ended_ns = recorder.last_step_ended_ns
        phase = recorder.phase or recorder.activity
        return Moment(now_s, recorder.steps_done, None if ended_ns is None else ended_ns / 1e9, phase)

    def _tell_stalled(self, now_s: float) -> None:
        recorder = self._recorder
        waiting_s, step, phase = self._clock.waiting_s(now_s), recorder.step, self._moment(now_s).phase
        self._stalled_s = now_s - waiting_s
        self._show(stalled=True)
        recorder.artifact("stacks", f"stacks-rank{recorder.rank}.txt", self._stacks.dump())
        behind = self._furthest_behind() if waiting_s > ALL_HAVE_TOLD_S else []
        data = {
            "seconds": round(waiting_s, 1),
            "phase": phase,
            "in_step": recorder.in_step,
            "furthest_behind": behind,
        }
        where = "before the first step" if step is None else f"at step {step}"
        text = f"no step has ended for {waiting_s:.0f} s, {where}" + (f" in {phase}" if phase else "")
        if behind and behind != [recorder.rank]:
            text += f"; furthest behind: {ranks_text(behind)}"
        recorder.note("stalled", text, data=data, step=step)
        recorder.guard.say(f"stalled {self._stalled_s}", text, level="warning")
        self._send_stacks_of_others()
        # It may take a while, and the watch goes on.
        threading.Thread(
            target=recorder.guard.run,
            args=("flight recorder", self._send_collectives),
            name="trilens-evidence",
            daemon=True,
        ).start()

    def _furthest_behind(self) -> list[int]:
        try:
            return furthest_behind(within(_ASK_S, self._whereabouts, what="job's store"))
        except TimeoutError:
            return []

    def _tell_moving(self, now_s: float) -> None:
        recorder = self._recorder
        length_s = now_s - (self._stalled_s or now_s)
        self._stalled_s = None
        self._show(stalled=False)
        recorder.note(
            "moving",
            f"steps go on after about {length_s:.0f} s",
            data={"seconds": round(length_s, 1)},
            step=recorder.step,
        )

    def _tell_frozen(self, seconds: float, stacks: bytes) -> None:
        """Nothing of Python ran, not even this thread."""
        recorder = self._recorder
        if stacks:
            recorder.artifact("stacks", f"stacks-rank{recorder.rank}-frozen.txt", stacks)
        recorder.note(
            "frozen",
            f"no Python code ran for {seconds:.0f} s: its interpreter was locked, or the process stopped",
            data={"seconds": round(seconds, 1), "stacks": bool(stacks)},
            step=recorder.step,
        )

    def _send_collectives(self) -> None:
        from trilens.model.errors import FlightRecorderError  # few programs ever stall
        from trilens.model.flight_recorder import read_flight_recorder, standings

        recorder = self._recorder
        content = dump_collectives(recorder.options.environ, recorder.rank, MAX_ARTIFACT_BYTES)
        if content is None:
            return
        try:
            dump = read_flight_recorder(content)
        except FlightRecorderError:  # sent all the same: somebody may know more than this version
            dump = None
        if dump is not None and not dump.entries:
            recorder.guard.say(
                "flight recorder",
                "PyTorch has recorded no collectives; TORCH_FR_BUFFER_SIZE=2000 in the environment makes it",
            )
            return
        recorder.artifact("flight-recorder", f"trace_rank_{recorder.rank}", content)
        if dump is not None:  # read here once: a server would have to read those of a thousand ranks
            groups = [one._asdict() for one in standings(dump)[:_MOST_GROUPS]]
            waits = [f"{one['operation']} {one['pending']}" for one in groups if one["pending"] is not None]
            text = f"waits in {', '.join(waits[:3])}" if waits else "waits in no collective"
            recorder.note("collectives", text, data={"groups": groups}, step=recorder.step)

    def _send_stacks_of_others(self) -> None:
        for found in self._stacks.of_others():
            name = f"stacks-rank{found.rank}-pid{found.pid}-frozen.txt"
            self._recorder.artifact("stacks", name, found.stacks)
            self._recorder.note(
                "frozen",
                f"rank {found.rank} (process {found.pid}) left its stacks: no Python code ran in it",
                data={"rank": found.rank, "pid": found.pid},
            )


def furthest_behind(seen: Sequence[Whereabouts]) -> list[int]:
    """The ranks at the earliest step, where not all are at the same: likely the ones the others wait for."""
    steps = {one.rank: -1 if one.step is None else one.step for one in seen}
    if len(set(steps.values())) < 2:
        return []
    least = min(steps.values())
    return sorted(rank for rank, step in steps.items() if step == least)


def is_being_debugged() -> bool:
    """Whether somebody has stopped the program to look at it."""
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            if frame.f_globals.get("__name__") in _DEBUGGERS:
                return True
            frame = frame.f_back
    return False
