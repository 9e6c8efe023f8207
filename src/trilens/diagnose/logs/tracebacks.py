"""Python's tracebacks and stack dumps, line by line. Those of several ranks in one log may be mixed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from trilens.diagnose.logs.line import number

BEGINS: Final = "Traceback (most recent call last)"
DUMP: Final = "(most recent call first)"

_FRAME: Final = re.compile(r'\s*(?P<word>File) "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)')
_FRAME_INDENT: Final = 2  # of frames, as Python writes them
_RAISED: Final = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
# Names that errors have though they do not end so.
_ERRORS: Final = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Iteration|Timeout|Failed|Failure|Refused|Cancelled|Empty)$"
)
# What is raised because another process is gone, or because this one was told to end.
FOLLOWS: Final = frozenset(
    (
        "BrokenPipeError", "ConnectionResetError", "ConnectionAbortedError", "ConnectionRefusedError",
        "EOFError", "KeyboardInterrupt", "SystemExit", "SignalException", "ChildFailedError",
        "DistBackendError", "DistNetworkError", "DistStoreError", "ProcessExitedException",
        "ProcessRaisedException", "CalledProcessError", "RayActorError", "RayTaskError", "ActorDiedError",
        "EngineDeadError", "CancelledError",
    )
)  # fmt: skip
# Where a rank is that waits for the others.
_WAITS: Final = re.compile(
    r"distributed_c10d\.py|/torch/distributed/|all_reduce|allreduce|all_gather|reduce_scatter|broadcast|barrier"
    r"|_engine_run_backward|cuda/streams\.py.*synchronize|cuda/__init__\.py.*synchronize"
)
# Messages of what ranks do together.
_BETWEEN: Final = re.compile(r"NCCL|nccl|c10d|ProcessGroup|process group|TCPStore|[Rr]endezvous|[Gg]loo")
# Frames of the machinery around the program: they do not say where it failed.
_MACHINERY: Final = re.compile(
    r"/(?:torch/(?:distributed|nn/modules/module|utils/data|multiprocessing|autograd)|runpy|multiprocessing"
    r"|contextlib|accelerate|threading)\b"
)


class Frame(NamedTuple):
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class Raised(NamedTuple):
    """An exception that ended a traceback."""

    type: str
    message: str
    frame: Frame | None  # the innermost of the program's own
    in_collective: bool = False  # where it was raised is between ranks: it may be another one's fault

    @property
    def name(self) -> str:
        return self.type.rpartition(".")[2]


@dataclass(slots=True)
class OpenTraceback:
    """One that is being read."""

    begun: int = 0  # the number of its first line
    indent: int = 0  # of all of it, where somebody put it into a list or a table
    frame: Frame | None = None
    innermost: Frame | None = None
    lines: int = 0

    def take(self, text: str) -> Raised | bool:
        """The exception at its end; True where it goes on; False where it just stops."""
        self.lines += 1
        if self.indent and text[: self.indent].isspace():
            text = text[self.indent :]
        if found := _FRAME.match(text):
            if self.innermost is None:
                self.indent = max(0, found.start("word") - _FRAME_INDENT)
            frame = Frame(found["file"], number(found["line"]) or 0, found["function"])
            self.innermost = frame
            if self.frame is None or not _MACHINERY.search(frame.file):
                self.frame = frame
            return True
        if not text or text.startswith((" ", BEGINS)):
            return True
        found = _RAISED.match(text)
        if found is None:
            return False
        path, _, name = found["type"].rpartition(".")
        if not (_ERRORS.search(name) or (path and name[:1].isupper())):
            return False
        message = found["message"] or ""
        where = self.innermost.file if self.innermost else ""
        between = "/torch/distributed/" in where or _BETWEEN.search(message) is not None
        return Raised(found["type"], message, self.frame, between)


class Stack(NamedTuple):
    """Where the first thread of a dump was."""

    waits: bool  # for other ranks
    frame: Frame | None  # the innermost of the program's own


@dataclass(slots=True)
class OpenDump:
    """Of faulthandler, as the SDK sends it: the program's own thread first, of it the newest call first."""

    waits: bool = False
    frame: Frame | None = None
    frames: int = 0

    def take(self, text: str) -> Stack | None:
        """The stack, once its thread is over."""
        if found := _FRAME.match(text):
            frame = Frame(found["file"], number(found["line"]) or 0, found["function"])
            self.frames += 1
            # Its own code that was called from what waits, as from the backward pass, does not.
            if self.frame is None and _WAITS.search(f"{frame.file} {frame.function}"):
                self.waits = True
            if self.frame is None and not _MACHINERY.search(frame.file):
                self.frame = frame
            return None
        return self.ended() if self.frames else None

    def ended(self) -> Stack:
        return Stack(self.waits, self.frame)
