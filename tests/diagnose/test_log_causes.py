"""The root cause in logs of many ranks: what only follows from it must not win."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource, read_logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.logs.log_verdict import LogVerdict

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79 GiB"
REMOTE = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/x.cpp:1970, remote process exited or there "
    "was a network error, NCCL version 2.20.5"
)


def _judged(**logs: str) -> LogVerdict:
    """Each log under its name; what it has on several lines is one line each."""
    return judge_logs(
        LogSource(name.replace("__", "."), text.strip("\n").split("\n")) for name, text in logs.items()
    )


def _init(host: str, pid: int, rank: int, *, t: str = "", ranks: int = 16, device: int = 0) -> str:
    return (
        f"{t}{host}:{pid}:{pid + 9} [{device}] NCCL INFO comm 0x1 rank {rank} nranks {ranks} cudaDev {device} "
        f"busId {device + 1}b000 commId 0xabc - Init COMPLETE"
    )


def _closed(host: str, pid: int, peer: str, *, t: str = "") -> str:
    return (
        f"{t}{host}:{pid}:{pid + 9} [0] misc/socket.cc:49 NCCL WARN socketProgress: "
        f"Connection closed by remote peer {peer}<41109>"
    )


def _error_12(host: str, pid: int, peer: str, *, t: str = "") -> str:
    return (
        f"{t}{host}:{pid}:{pid + 9} [0] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from peer "
        f"{peer}<37948> with error 12, opcode 2, len 1, vendor err 129"
    )


def _timeout(rank: int, *, seq: int = 900, op: str = "ALLREDUCE", size: int = 4) -> str:
    return (
        f"[rank{rank}]:[E1103 10:00:03.10{rank % 10} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={size}, NumelOut={size}, "
        f"Timeout(ms)=600000) ran for 600011 milliseconds before timing out."
    )


def _traceback(error: str, before: str = "") -> str:
    lines = [
        "Traceback (most recent call last):",
        '  File "/ws/train.py", line 30, in collate',
        "    x = d[key]",
        error,
    ]
    return "\n".join(before + line for line in lines)


def _who(verdict: LogVerdict) -> tuple[str, int | None, str]:
    return (verdict.cause, verdict.who.rank, verdict.who.host)


def test_a_socket_error_that_follows_another_ranks_crash_does_not_win() -> None:
    verdict = _judged(
        rank0__log=f"{_init('a', 10, 0, ranks=2)}\n{_closed('a', 10, 'b')}\n{_traceback(REMOTE)}",
        rank1__log=f"{_init('b', 20, 1, ranks=2)}\n{_traceback(OOM)}",
    )
    assert _who(verdict) == ("gpu-out-of-memory", 1, "b")
    assert (verdict.file, verdict.number) == ("rank1.log", 5)
    assert verdict.confidence > 0.9
    assert {(one.cause, one.ranks) for one in verdict.follows} == {("peer-closed", (0,))}
    assert verdict.missing == ()


def test_ranks_that_are_mixed_in_one_log_are_told_apart() -> None:
    """Line by line from nine ranks: the traceback of one is put together from between the others."""
    own = _traceback("KeyError: 'k'", "[rank5]: ").split("\n")
    others = [
        f"[rank{rank}]: step {step} loss 2.{step}" for step in range(4) for rank in range(9) if rank != 5
    ]
    mixed: list[str] = []
    for at, line in enumerate(others):
        mixed.append(line)
        if at % 8 == 3 and own:
            mixed.append(own.pop(0))
    mixed.append("[rank2]: " + REMOTE)
    verdict = _judged(job__log="\n".join(mixed))
    assert _who(verdict) == ("exception", 5, "")
    assert "KeyError: 'k'" in verdict.text
    assert "/ws/train.py:30 in collate" in verdict.fix[0]


def test_what_a_chained_exception_ends_in_is_not_the_cause() -> None:
    chained = (
        f"{_traceback('KeyError: 1')}\n\nDuring handling of the above exception, another exception occurred:\n\n"
        f"{_traceback('ValueError: cannot collate')}"
    )
    assert "KeyError" in _judged(rank0__log=chained).text


def test_an_exception_that_python_ignored_is_no_cause() -> None:
    ignored = (
        f"Exception ignored in atexit callback: <function f at 0x1>\n{_traceback('OSError: late')}\nstep 3"
    )
    assert _judged(rank0__log=ignored).cause == "unknown"


@pytest.mark.parametrize("shuffled", range(3))
def test_the_order_in_which_logs_are_handed_in_changes_nothing(shuffled: int) -> None:
    logs = [(f"rank{rank}.log", f"{_init('n', 10 + rank, rank, ranks=4, device=rank)}\n{_timeout(rank)}") for rank in range(3)]  # fmt: skip
    logs.append(("rank3.log", f"{_init('n', 13, 3, ranks=4, device=3)}\n[rank3]: {OOM}"))
    random.Random(shuffled).shuffle(logs)
    verdict = judge_logs(LogSource(name, text.split("\n")) for name, text in logs)
    assert _who(verdict) == ("gpu-out-of-memory", 3, "n")


CLOCKS = ("2026-11-03T09:00:00.100Z ", "2026-11-03T08:55:00.100Z ")


def test_clocks_that_differ_are_compared_by_when_the_communicator_was_set_up() -> None:
    """Host b is five minutes behind: its error is dated before the crash that brought it."""
    oom = f"2026-11-03T10:00:00.000Z {OOM}"
    late = _error_12("b", 20, "10.0.0.1", t="2026-11-03T09:55:10.000Z ")
    verdict = _judged(
        a__log=f"{_init('a', 10, 0, t=CLOCKS[0])}\n{oom}", b__log=f"{_init('b', 20, 8, t=CLOCKS[1])}\n{late}"
    )
    assert _who(verdict) == ("gpu-out-of-memory", 0, "a")
    assert verdict.skew_ms["a"] - verdict.skew_ms["b"] == 300_000
    assert [one.cause for one in verdict.order] == ["gpu-out-of-memory", "rdma-timeout"]


def test_a_fabric_that_failed_long_before_an_exception_is_the_cause() -> None:
    exception = _traceback("ValueError: bad", "2026-11-03T10:05:00.000Z ")
    verdict = _judged(
        a__log=f"{_init('a', 10, 0, t=CLOCKS[0], ranks=2)}\n{exception}",
        b__log=f"{_init('b', 20, 1, t=CLOCKS[0], ranks=2)}\n"
        + _error_12("b", 20, "10.0.0.1", t="2026-11-03T10:00:10.000Z "),
    )
    assert _who(verdict) == ("rdma-timeout", 1, "b")


def test_times_with_a_year_and_without_are_of_the_same_one() -> None:
    verdict = _judged(
        all__log="[rank1]:[E1103 10:00:09.0 x.cpp:7] [Rank 1] CUDA error: an illegal memory access was encountered\n"
        f"2026-11-03T10:00:01Z [rank0]: {OOM}"
    )
    assert _who(verdict) == ("gpu-out-of-memory", 0, "")
    assert verdict.others == ()


def test_an_xid_of_the_kernel_is_put_to_the_rank_whose_gpu_it_is() -> None:
    kernel = (
        "Nov  3 09:50:00 n2 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=20, GPU has fallen off the bus.\n"
        "Nov  3 09:50:01 n2 kernel: NVRM: Xid (PCI:0000:1b:00): 45, pid=20, Ch 0"
    )
    job = f"{_init('n1', 10, 0, ranks=2)}\n{_init('n2', 20, 1, ranks=2)}\n{_timeout(0)}"
    verdict = _judged(job__log=job, dmesg__txt=kernel)
    assert _who(verdict) == ("gpu-lost", 1, "n2")


def test_a_process_that_was_killed_is_named_by_the_launchers_table() -> None:
    table = """
E1103 10:00:00.785000 42 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 81) of binary: /usr/bin/python3
Root Cause (first observed failure):
[0]:
  time      : 2026-11-03_10:00:00
  host      : n2
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 81)
  traceback : Signal 9 (SIGKILL) received by PID 81
"""
    verdict = _judged(n1__log=f"{_init('n1', 70, 0, ranks=4)}\n{_closed('n1', 70, 'n2')}", n2__log=table)
    assert _who(verdict) == ("killed", 3, "n2")
    assert 0.5 <= verdict.confidence < 0.8
    assert any("kernel log" in one.remedy for one in verdict.missing)
    kernel = "[12345.678901] Out of memory: Killed process 81 (python) total-vm:90000000kB"
    surer = _judged(n2__log=table, dmesg__txt=kernel)
    assert surer.confidence > 0.9
    assert (surer.cause, surer.who) == ("host-out-of-memory", verdict.who)
    escalated = "W1103 torch/api.py:900] Unable to shutdown process 81 via 15, forcefully exiting via 9"
    assert _judged(n2__log=f"{escalated}\n{table}").cause == "aborted"
    assert not any("kernel log" in one.remedy for one in surer.missing)


@pytest.mark.parametrize(
    ("line", "cause", "rank"),
    [
        ("srun: error: n2: task 3: Segmentation fault", "crashed", 3),
        ("mpirun noticed that process rank 5 with PID 0 on node n2 exited on signal 9 (Killed).",
         "killed", 5),
        ("srun: error: n2: task 3: Exited with exit code 1", "rank-left", 3),
    ],
)  # fmt: skip
def test_how_slurm_and_mpi_report_an_end(line: str, cause: str, rank: int) -> None:
    assert _who(_judged(job__out=line)) == (cause, rank, "n2")


WAITS = '  File "/opt/torch/distributed/distributed_c10d.py", line 2800 in all_reduce'
LOADS = '  File "/ws/data.py", line 41 in decode\n  File "/opt/torch/utils/data/dataloader.py", line 600 in __next__'


def _stacks(inner: str) -> str:
    return (
        f'Thread 0x00007f (most recent call first):\n{inner}\n  File "/ws/train.py", line 88 in train\n\n'
        'Thread 0x00008f (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 331 in wait'
    )


def test_stacks_tell_which_rank_is_not_where_the_others_wait() -> None:
    verdict = judge_logs(
        LogSource(f"stacks-rank{rank}.txt", _stacks(LOADS if rank == 2 else WAITS).split("\n"))
        for rank in range(4)
    )
    assert _who(verdict) == ("rank-behind", 2, "")
    assert "/ws/data.py:41 in decode" in verdict.text


@pytest.mark.parametrize(
    ("lines", "cause", "rank"),
    [
        ([_timeout(rank, op="BROADCAST" if rank == 3 else "ALLREDUCE") for rank in range(8)],
         "mismatched-collective", 3),
        ([_timeout(rank, size=5 if rank == 3 else 4) for rank in range(8)], "mismatched-shape", 3),
        ([_timeout(rank, seq=902 if rank == 3 else 900) for rank in range(8)], "mismatched-collective", 3),
        (["[rank3]: loading shard 7", *(_timeout(rank) for rank in range(8) if rank != 3)], "rank-behind", 3),
        ([f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank {rank}] Timeout at NCCL work: 19, last enqueued "
          f"NCCL work: {18 if rank == 3 else 21}, last completed NCCL work: 18." for rank in range(8)],
         "rank-behind", 3),
    ],
    ids=["other-operation", "other-size", "further", "silent", "started-fewer"],
)  # fmt: skip
def test_the_watchdogs_of_all_ranks_tell_who_is_the_odd_one(
    lines: Sequence[str], cause: str, rank: int
) -> None:
    verdict = _judged(job__log="\n".join(lines))
    assert _who(verdict)[:2] == (cause, rank)
    assert verdict.can_tell
    assert f"rank {rank}" in verdict.why


OLD = "[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: "
TEXTS = [
    OLD + "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1804456 milliseconds before timing out.",
    OLD + "WorkNCCL(SeqNum=458, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1804456 milliseconds before timing out.",
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank {rank}] Timeout at NCCL work: 19, last enqueued NCCL work: 19, last completed NCCL work: 18.",
    "[rank{rank}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.",
    "[rank{rank}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:2173] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 808 PG status: last enqueued work: 811, last completed work: 807",
    "[rank{rank}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 811, last completed NCCL work: 807.This is most likely caused by incorrect usages of collectives",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_where_all_ranks_wait_for_the_same_the_cause_cannot_be_told(text: str) -> None:
    """In the words of several versions of PyTorch."""
    verdict = _judged(job__log="\n".join(text.format(rank=rank) for rank in range(8)))
    assert verdict.cause == "collective-timeout"
    assert not verdict.can_tell
    assert any("TORCH_FR_BUFFER_SIZE" in one.remedy for one in verdict.missing)


def test_waits_in_two_groups_are_put_to_their_groups() -> None:
    def lines(rank: int) -> str:
        told = []
        for group, seq in ((7, 5), (0, 900)):
            told.append(_timeout(rank, seq=seq))
            told.append(
                f"[rank{rank}]:[E x.cpp:1] [PG ID {group} PG GUID {group}(g) Rank {rank}] Exception (either an error "
                f"or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq}, last completed "
                f"NCCL work: {seq - 1}."
            )
        return "\n".join(told)

    found = read_logs([LogSource("x", "\n".join(lines(rank) for rank in range(2)).split("\n"))])
    for by_group in found.waits.values():
        assert {name: wait.seq for name, wait in by_group.items()} == {"7": 5, "0": 900}
        assert all(wait.op == "ALLREDUCE" for wait in by_group.values())


def test_a_rank_whose_log_is_not_there_is_missing_and_not_blamed() -> None:
    """Each rank has its own log: that one says nothing of the time-out means nothing, if it is not here."""
    logs = {f"rank{rank}__log": f"{_init('n', 10 + rank, rank, ranks=8, device=rank)}\n{_timeout(rank)}" for rank in range(7)}  # fmt: skip
    verdict = _judged(**logs)
    assert verdict.cause == "collective-timeout"
    assert not verdict.can_tell
    assert verdict.missing[0].what == "the logs of 1 of 8 ranks: 7"


def test_half_of_the_ranks_tell_which_are_missing() -> None:
    logs = {f"rank{rank}__log": f"{_init('n', 10 + rank, rank, ranks=8)}\n{_closed('n', 10 + rank, 'm')}" for rank in (0, 1, 2, 6)}  # fmt: skip
    verdict = _judged(**logs)
    assert verdict.missing[0].what == "the logs of 4 of 8 ranks: 3-5, 7"
    assert (verdict.cause, verdict.who.host) == ("rank-left", "m")
    assert verdict.confidence < 0.8


def test_versions_that_differ_explain_what_follows_from_them() -> None:
    logs = {
        "a__log": f"NCCL version 2.20.5+cuda12.4\n{_init('a', 1, 0, ranks=2)}\n{_closed('a', 1, 'b')}",
        "b__log": f"NCCL version 2.18.1+cuda12.1\n{_init('b', 2, 1, ranks=2)}",
    }
    verdict = _judged(**logs)
    assert verdict.cause == "nccl-version-mismatch"
    assert "2.18.1 on b.log, 2.20.5 on a.log" in verdict.text


def test_a_wrong_interface_explains_a_refused_connection() -> None:
    lines = (
        "n1:7:7 [0] NCCL INFO Bootstrap : Using docker0:172.18.0.1<0>\n"
        "n2:8:8 [0] misc/socket.cc:1 NCCL WARN Net : Connect to 10.9.9.9<4000> failed : Connection refused"
    )
    assert _who(_judged(x__log=lines)) == ("wrong-interface", None, "n1")
    one_host = lines.replace("n2:", "n1:")
    assert _judged(x__log=one_host).cause == "connection-refused"


def test_a_job_that_was_stopped_from_outside_did_not_fail() -> None:
    lines = (
        "W1103 10:00:00.936000 29 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting "
        "down workers\nW1103 10:00:00.937000 29 torch/distributed/elastic/multiprocessing/api.py:766] Closing process "
        "81 via signal SIGTERM"
    )
    assert _judged(x__log=lines).cause == "stopped"
    assert _judged(x__log=f"{lines}\n[rank1]: {OOM}").cause == "gpu-out-of-memory"


def test_two_causes_that_nothing_puts_in_order_are_both_told() -> None:
    verdict = _judged(
        rank0__log=f"{_init('a', 1, 0, ranks=2)}\n{OOM}",
        rank1__log=f"{_init('b', 2, 1, ranks=2)}\n{_traceback('ValueError: bad')}",
    )
    assert verdict.cause == "gpu-out-of-memory"
    assert [(one.cause, one.who.rank) for one in verdict.others] == [("exception", 1)]
    assert verdict.confidence < 0.8
    assert any("which came first" in one.what for one in verdict.missing)


def test_logs_that_are_quiet_tell_nothing_and_ask_for_more() -> None:
    verdict = _judged(rank0__log="step 1 loss 3\nstep 2 loss 2")
    assert (verdict.cause, verdict.confidence, verdict.lines) == ("unknown", 0.0, 2)
    assert any("NCCL_DEBUG=INFO" in one.remedy for one in verdict.missing)
    assert judge_logs([LogSource("x", [])]).text == "The logs are empty."


def test_the_old_name_of_a_setting_is_told() -> None:
    warned = (
        "[W Utils.hpp:135] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use "
        "TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function getCvarInt)"
    )
    verdict = _judged(x__log=f"{warned}\n{_timeout(0)}")
    assert any("set TORCH_NCCL_ASYNC_ERROR_HANDLING" in one.remedy for one in verdict.missing)


def test_a_log_of_which_the_beginning_is_gone_is_said_to_be() -> None:
    verdict = judge_logs([LogSource("pod", [_error_12("a", 1, "b")], is_cut=True)])
    assert "the beginning of pod" in {one.what for one in verdict.missing}


def test_what_is_kept_of_a_log_does_not_grow_with_it() -> None:
    flood = (_error_12("a", 1, "b") for _ in range(20_000))
    found = read_logs([LogSource("x", flood)])
    assert found.lines == [20_000]
    assert [hit.count for hit in found.hits.values()] == [20_000]
    assert _judged(x__log=f"world_size=99999999999\n{OOM}").missing == ()  # no log says how many are missing
    garbage = read_logs([LogSource("x", ["\0" * 100_000, "Xid (" * 50_000, "[" * 50_000, "\x1b[" * 9_000])])
    assert garbage.lines == [4]


HEALTHY = """
[W1103 09:00:00.1 socket.cpp:663] [c10d] The client socket has failed to connect to [train-0]:29500 (errno: 111 - Connection refused).
[W1103 09:00:00.2 socket.cpp:752] [c10d] The IPv6 network addresses of (train-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).
n1:7:7 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
n1:7:7 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.
n1:7:7 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
n1:7:7 [0] NCCL INFO NET/IB : No device found.
n1:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 1b000 commId 0xabc - Init COMPLETE
/opt/lib/x.py:12: UserWarning: the default of timeout will change; errors are ignored
step 1 loss 2.3 errors 0 failed 0
[rank0]:[W1103 09:30:00.1 ProcessGroupNCCL.cpp:1168] Warning: process group has NOT been destroyed before we destruct ProcessGroupNCCL.
"""


def test_warnings_of_a_job_that_is_well_are_no_cause() -> None:
    verdict = _judged(rank0__log=HEALTHY)
    assert not verdict.can_tell, verdict


def test_early_warnings_do_not_explain_a_later_end() -> None:
    """A socket that was refused until rank 0 listened has nothing to do with a rank that is behind."""
    waits = "\n".join(_timeout(rank) for rank in range(1, 8))
    assert _who(_judged(job__log=f"{HEALTHY}\n{waits}"))[:2] == ("rank-behind", 0)


def test_what_a_network_plugin_brings_on_other_ranks_is_not_the_cause() -> None:
    plugin = "a:1:9 [0] x:7 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available"
    verdict = _judged(rank0__log=plugin, rank1__log=_traceback("AssertionError: not initialised"))
    assert (verdict.cause, verdict.others) == ("network-plugin", ())


def test_the_xid_of_a_gpu_is_deeper_than_what_its_rank_says_first() -> None:
    illegal = "CUDA error: an illegal memory access was encountered"
    kernel = "Nov  3 09:50:00 a kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=10, GPU has fallen off the bus."
    verdict = _judged(a__log=f"{_init('a', 10, 0, ranks=1)}\n{illegal}", dmesg__txt=kernel)
    assert _who(verdict) == ("gpu-lost", 0, "a")


def test_a_cause_that_is_known_says_more_than_an_exception_before_it() -> None:
    verdict = _judged(rank0__log=f"{_traceback('ValueError: retrying')}\nstep 2\n{_traceback(OOM)}")
    assert verdict.cause == "gpu-out-of-memory"


def test_a_process_of_which_no_line_tells_the_rank_is_not_taken_for_another() -> None:
    lines = f"{_closed('n1', 70, 'n2')}\n{_init('n2', 71, 3, ranks=4)}\nn2:71:80 [0] x.cc:1 NCCL WARN Cuda failure 'out of memory'"
    verdict = _judged(job__log=lines)
    assert _who(verdict) == ("gpu-out-of-memory", 3, "n2")
    assert [(one.cause, one.ranks) for one in verdict.follows] == [("peer-closed", ())]


def test_a_rank_within_its_node_is_the_rank_only_on_one_node() -> None:
    assert _judged(a__log=f"[default1]:{OOM}").who.rank == 1
    two = f"[default1]:{OOM}\n{_closed('n1', 70, 'n9')}\n{_closed('n2', 71, 'n9')}"
    assert _judged(a__log=two).who.rank is None


def test_a_rank_that_complains_of_another_did_not_leave_first() -> None:
    table = "  host      : n1\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 70)"
    verdict = _judged(n1__log=f"{_init('n1', 70, 0, ranks=2)}\n{_closed('n1', 70, 'n2')}\n{table}")
    assert _who(verdict) == ("rank-left", None, "n2")


def test_what_is_raised_while_a_lost_connection_is_handled_is_no_cause() -> None:
    chained = (
        f"{_traceback('ConnectionResetError: [Errno 104]')}\n\nDuring handling of the above exception, another "
        f"exception occurred:\n\n{_traceback('ValueError: cannot write the log')}"
    )
    assert not _judged(rank0__log=chained).can_tell
    assert not _judged(rank0__log=_traceback("SystemExit: 1")).can_tell


def test_a_line_without_a_time_comes_before_those_after_it_that_have_one() -> None:
    closing = "2026-11-03T10:00:09Z torch/api.py:1028] Sending process 97 closing signal SIGTERM"
    verdict = _judged(job__log=f"[rank1]: {OOM}\n{_closed('n1', 70, 'n2')}\n{closing}")
    assert [one.number for one in verdict.order] == [1, 2, 3]


def test_of_several_attempts_in_one_log_the_last_that_says_anything_counts() -> None:
    again = "I1103 10:00:00.1 42 torch/api.py:889] [default] Worker group FAILED. 3/3 attempts left; will restart worker group"
    first, second = _error_12("a", 1, "b"), f"[rank1]: {OOM}"
    assert _judged(x__log=f"{first}\n{again}\nstep 1\n{second}").cause == "gpu-out-of-memory"
    assert _judged(x__log=f"{second}\n{again}\nstep 1\n{first}").cause == "rdma-timeout"
    assert _judged(x__log=f"{second}\n{again}\nstep 1").cause == "gpu-out-of-memory"
