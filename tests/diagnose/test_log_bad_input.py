"""Logs as they should not be: ranks mixed in one file, cut off, hostile. None may be taken for another's."""

from __future__ import annotations

from itertools import chain, zip_longest

import pytest

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource, read_logs

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
HEAD = "Traceback (most recent call last):"
FRAME = '  File "/train/loop.py", line 41, in step'
NO_RANK = "which rank it was"


def _rank(rank: int) -> list[str]:
    """Two ranks on each of two hosts; the third one has the cause, and the others lose it."""
    host, pid = f"node-{rank // 2}", 1000 + rank
    said = f"{host}:{pid}:{pid} [{rank % 2}]"
    began = f"{said} NCCL INFO comm 0x5 rank {rank} nranks 4 cudaDev {rank % 2} busId 1a000 - Init START"
    closed = f"{said} socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node-1<4242>"
    if rank == 2:
        return [began, "step 1", HEAD, FRAME, "    loss.backward()", "ValueError: no such shard"]
    return [began, "step 1", closed, HEAD, FRAME, "ConnectionResetError: [Errno 104]"]


def _mixed(prefix: str) -> list[str]:
    """Line by line in turn. `prefix` may use the rank, the host and the rank within it."""
    ranks = [
        [prefix.format(rank=rank, host=f"node-{rank // 2}", local=rank % 2) + line for line in _rank(rank)]
        for rank in range(4)
    ]
    return [line for line in chain.from_iterable(zip_longest(*ranks)) if line is not None]


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank{rank}]: ",
        "[pod/train-{rank}/pytorch] ",
        "[pod/train-{rank}/pytorch] 2026-11-03T10:00:01.123456789Z ",
        "[pod/train-{host}/pytorch] [default{local}]:",
        "[1,{rank}]<stdout>:",
        "[prterun-n1-77@1,{rank}]<stderr>: ",
        "{rank}: ",
        " {rank}: ",
    ],
)
def test_ranks_that_write_to_one_log_are_told_apart_by_what_is_put_before_their_lines(prefix: str) -> None:
    verdict = judge_logs([LogSource("job.log", _mixed(prefix))])
    assert (verdict.cause, verdict.who.rank, verdict.who.host) == ("exception", 2, "node-1")
    assert "no such shard" in verdict.text
    assert not any(NO_RANK in one.what for one in verdict.missing)


@pytest.mark.parametrize(("prefix", "host"), [("", ""), ("[default{local}]:", ""), ("{host}: ", "node-1")])
def test_where_nothing_tells_the_rank_it_is_missing_and_not_guessed(prefix: str, host: str) -> None:
    lines = [*_mixed(prefix), prefix.format(rank=2, host="node-1", local=0) + OOM]
    verdict = judge_logs([LogSource("job.log", lines)])
    assert (verdict.cause, verdict.who) == ("gpu-out-of-memory", (None, host))
    assert any(NO_RANK in one.what for one in verdict.missing)


def test_a_task_of_the_launcher_for_each_node_is_no_rank() -> None:
    """srun --label torchrun: there is a task for each node, with many ranks."""
    lines = [f"{rank // 2}: {line}" for rank in (0, 1, 3) for line in _rank(rank)] + [f"1: {OOM}"]
    assert judge_logs([LogSource("slurm.out", lines)]).who == (None, "node-1")
    prefixed = [f"0: {OOM}", f"1: [rank9]: {HEAD}", f"1: [rank9]: {FRAME}", "1: [rank9]: EOFError: x"]
    assert judge_logs([LogSource("slurm.out", prefixed)]).who.rank is None


def test_a_log_that_stops_within_a_traceback_is_said_to_be_cut() -> None:
    verdict = judge_logs([LogSource("rank0.log", ["step 1", HEAD, FRAME])])
    assert not verdict.can_tell
    assert any("the end of rank0.log, which stops within a traceback" in one.what for one in verdict.missing)


def test_a_traceback_that_was_put_into_a_table_ends_where_it_ends() -> None:
    lines = ["traceback : " + HEAD, "  " + FRAME, "      go()", "  ValueError: no such shard", "  step 1"]
    assert "no such shard" in judge_logs([LogSource("x.log", lines)]).text


def test_after_a_traceback_that_never_ends_the_log_is_read_as_before() -> None:
    lines = [f"[rank0]: {HEAD}", f"[rank0]: {FRAME}", *["step 1"] * 6_000, f"[rank1]: {OOM}"]
    found = read_logs([LogSource("x.log", lines)])
    assert [hit.speaker.rank for hit in found.hits.values()] == [1]
    assert not found.unended


def test_what_a_progress_bar_leaves_is_read_however_long_the_line_is() -> None:
    bar = "".join(f"\r{percent}%|####|" for percent in range(3_000))
    verdict = judge_logs([LogSource("rank1.log", [f"{bar}\r{OOM}"])])
    assert (verdict.cause, verdict.line) == ("gpu-out-of-memory", OOM)


def test_lines_that_are_alike_but_for_their_numbers_may_mean_different_things() -> None:
    quiet = "NVRM: Xid (PCI:0000:4e:00): 45, pid=7, Ch 00000010"
    lost = "NVRM: Xid (PCI:0000:4e:00): 79, pid=7, Ch 00000010"
    found = read_logs([LogSource("kernel", [*[quiet] * 3, lost, *[f"step {at}" for at in range(50)], lost])])
    assert {hit.sign.cause: hit.count for hit in found.hits.values()}["gpu-lost"] == 2


HUGE = "9" * 6_000


@pytest.mark.parametrize(
    "line",
    [
        f"n1:1:1 [0] NCCL INFO comm 0x5 rank {HUGE} nranks {HUGE} busId 1 commId 0x1 - Init COMPLETE",
        "n1:1:1 [0] NCCL INFO comm 0x5 rank 1 nranks 4000000000 busId 1 commId 0x1 - Init COMPLETE",
        f"world_size={HUGE}",
        "world_size=4000000000",
        f"[rank{HUGE}]: {OOM}",
        f"[rank4000000000]: {OOM}",
        f"{HUGE}: {OOM}",
        f"[Rank {HUGE}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={HUGE}, OpType=REDUCE, "
        f"Timeout(ms)={HUGE}) ran for 2 milliseconds before timing out.",
        "WorkNCCL(SeqNum=abc, OpType=ALLREDUCE, Timeout(ms)=x) ran for 2 milliseconds before timing out.",
        f"last enqueued work: {HUGE}, last completed work: {HUGE}",
        f"Timed out waiting {HUGE}ms for recv operation to complete",
        f"exitcode: -{HUGE}) local_rank: 0 (pid: 3)",
        f"srun: error: n1: task {HUGE}: Exited with exit code 1",
        f"{HEAD}\n  File \"/x.py\", line {HUGE}, in f\nValueError: x",
        f"Out of memory: Killed process {HUGE} (python)",
        f"n1:1:1 [2] NCCL INFO [Service thread] Connection closed by localRank {HUGE}",
        f"RuntimeError: [Rank 0]: Ranks {HUGE} failed to pass monitoredBarrier in 1000 ms",
        '{"log":' + "[" * 5_000,
        "\x00\x1b\x1b[\x1b]\x07",
    ],
    ids=range(19),
)  # fmt: skip
def test_no_line_stops_the_reading(line: str) -> None:
    lines = [*line.split("\n"), f"[rank1]: {OOM}"]
    verdict = judge_logs([LogSource("job.log", lines)])
    assert verdict.lines == len(lines)
    assert verdict.cause != "unknown"
    assert verdict.ranks < 10


def test_what_a_log_says_cannot_steer_a_terminal() -> None:
    verdict = judge_logs([LogSource("x.log", [f"\x1b[31mValueError\x1b[0m: \x1b]52;c;aGk=\x07\x9b2J {OOM}"])])
    assert verdict.cause == "gpu-out-of-memory"
    assert verdict.line.isprintable()
    assert "aGk=" not in verdict.line
