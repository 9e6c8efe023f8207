"""Logs of ranks: read, judged, told. What comes out must not steer a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from bench.torture.fuzz.corpora import of_tests, shared
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

_PIECES: Final = (
    "[rank3]: ",
    "n1:12:34 [0] NCCL INFO comm 0x5 rank 1 nranks 4 cudaDev 0 busId 1a000 - Init START",
    "n1:12:34 [0] NCCL WARN ",
    "Connection closed by remote peer n2<4242>",
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4, "
    "NumelOut=4, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.",
    "Traceback (most recent call last):",
    '  File "/x.py", line 4, in f',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "ValueError: ",
    "NVRM: Xid (PCI:0000:4e:00): 79, pid=7, name=python, GPU has fallen off the bus.",
    "Out of memory: Killed process 12 (python)",
    "exitcode: -9) local_rank: 0 (pid: 3)",
    "last enqueued work: 7, last completed work: 6",
    '{"log":"x\\n","stream":"stderr","time":"2026-01-14T12:00:00Z"}',
    "2026-01-14T12:00:00.000000000Z stderr F ",
    "\x1b[31m",
    "\x1b]52;c;aGk=\x07",
    "\r",
    "\u2028",
    "\x85",
    "9" * 5000,
    "WARNING",
)


def _take(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").splitlines()
    half = len(lines) // 2
    verdict = judge_logs([LogSource("rank0.log", lines[:half]), LogSource("job.log", lines[half:])])
    assert verdict.line.replace("\t", "").isprintable(), verdict.line
    assert 0 <= verdict.confidence <= 1
    assert verdict.lines == len(lines)


def _seeds() -> Iterator[bytes]:
    yield from of_tests("diagnose/incidents/*/*.txt")
    yield from of_tests("diagnose/gloo_logs/*.log")
    yield from shared("xid/*.log")
    yield "\n".join(_PIECES).encode()


def _large() -> Iterator[bytes]:
    """Each piece on one line, as progress bars come, and on a line each."""
    for piece in (*_PIECES, " ", "a", ":", "[", "<", "n1:1:1 [0] "):
        written = piece.encode()
        yield written * (LARGE // 4 // len(written))
        yield (written + b"\n") * (MANY // 25)


def _shaped() -> SearchStrategy[bytes]:
    piece = st.sampled_from(_PIECES) | st.text(max_size=8)
    line = st.lists(piece, max_size=4).map("".join)
    return st.lists(line, max_size=25).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


LOGS: Final = Target(
    "nccl-logs", "logs of ranks: NCCL, tracebacks, launchers", _take, _seeds, _shaped, _large
)
