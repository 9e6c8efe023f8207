"""Signs that mean something in one job and nothing in another."""

from __future__ import annotations

import pytest

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.log_verdict import UNKNOWN, LogVerdict
from trilens.diagnose.logs.reading import LogSource
from trilens.model.verdict import SURE_FROM, TELL_FROM

DOCKER = "n1:7:7 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>"
VETH = "n1:7:7 [0] NCCL INFO Bootstrap : Using [0]ens5:10.0.0.7<0> [1]veth75fa783:fe80::14ad%veth75fa783<0>"
FAILED = "RuntimeError: NCCL error in: x.cpp:911, unhandled system error, NCCL version 2.7.8"
OVER_NET = "n1:7:9 [0] NCCL INFO Channel 00 : 1[1e0] -> 0[1e0] [receive] via NET/Socket/0"


def _judged(*lines: str, name: str = "rank0.log") -> LogVerdict:
    return judge_logs([LogSource(name, lines)])


@pytest.mark.parametrize("interface", [DOCKER, VETH])
def test_within_one_host_any_interface_will_do(interface: str) -> None:
    init = "n1:7:9 [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId 1e0 - Init COMPLETE"
    assert _judged(interface, init).cause == UNKNOWN
    assert _judged(interface, init, FAILED).cause == "cuda-call-failed"


@pytest.mark.parametrize("interface", [DOCKER, VETH])
def test_a_rank_that_talks_over_the_network_with_one_that_is_not_here_is_not_alone(interface: str) -> None:
    verdict = _judged(interface, OVER_NET, FAILED)
    assert verdict.cause == "wrong-interface"
    assert TELL_FROM <= verdict.confidence < SURE_FROM


def test_that_there_is_no_address_of_one_kind_is_less_than_that_names_are_not_resolved() -> None:
    said = "[W socket.cpp:601] [c10d] The IPv6 network addresses of (n7, 1) cannot be retrieved (gai error: "
    assert not _judged(f"{said}-2 - Name or service not known).").can_tell
    verdict = _judged(f"{said}-3 - Temporary failure in name resolution).")
    assert (verdict.cause, verdict.can_tell) == ("name-resolution", True)


def test_a_network_that_nccl_does_without_is_not_what_a_program_raises_for() -> None:
    raised = (
        "Traceback (most recent call last):",
        '  File "/ws/train.py", line 7, in main',
        "KeyError: 'text'",
    )
    verdict = _judged(
        "n1:7:9 [0] get_ofi_provider:312 NCCL WARN NET/OFI Could not find any optimal provider", *raised
    )
    assert verdict.confidence < SURE_FROM or verdict.cause == "exception"


def test_a_file_that_cannot_be_opened_says_nothing_of_why() -> None:
    raised = (
        "Traceback (most recent call last):",
        '  File "/ws/train.py", line 227, in train',
        "RuntimeError: File out/checkpoint_0.pt cannot be opened.",
    )
    verdict = _judged(*raised)
    assert not verdict.can_tell
    assert any("df -h" in one.remedy for one in verdict.missing)


def test_what_a_program_catches_does_not_end_it() -> None:
    steps = [f"step {at} loss 1.0" for at in range(9)]
    caught = "2026-11-03 10:00:00 | WARNING | trainer | CUDA out of memory. Tried to allocate 1.20 GiB"
    raised = (
        "Traceback (most recent call last):",
        '  File "/ws/train.py", line 7, in main',
        "KeyError: 'text'",
    )
    assert not _judged(caught, *steps).can_tell
    assert _judged(caught, *steps, *raised).cause == "exception"


def test_a_rank_that_waits_for_the_others_later_has_gone_on_after_what_it_raised() -> None:
    raised = (
        "Traceback (most recent call last):",
        '  File "/ws/data.py", line 7, in decode',
        "ValueError: truncated",
    )
    timeout = (
        "[rank{0}]:[E ProcessGroupNCCL.cpp:563] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=900, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)=600000) ran for 600037 "
        "milliseconds before timing out."
    )
    told = [f"[rank3]: {line}" for line in raised]
    others = [timeout.format(rank) for rank in range(3)]
    assert _judged(*told, *others, name="run.log").confidence >= SURE_FROM
    assert _judged(*told, *others, timeout.format(3), name="run.log").confidence < SURE_FROM


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        # As well of a library, of the driver, or of a broken GPU.
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "illegal-memory-access"),
        ("RuntimeError: CUDA error: misaligned address", "illegal-memory-access"),
        # As well of a program that was given none, or hides them from itself.
        ("RuntimeError: No CUDA GPUs are available", "cuda-init-failed"),
        ("RuntimeError: CUDA error: no CUDA-capable device is detected", "cuda-init-failed"),
        # As well of a GPU that the node has lost.
        ("RuntimeError: CUDA error: invalid device ordinal", "no-such-gpu"),
        # As well of pinned memory of the host, or of an index that is out of range.
        ("RuntimeError: CUDA error: out of memory", "gpu-out-of-memory"),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "gpu-out-of-memory",
        ),
        # As well of a terminal that is gone, or of a container whose files may only be read.
        ("OSError: [Errno 5] Input/output error", "storage-failed"),
        ("OSError: [Errno 30] Read-only file system: '/ckpt'", "storage-failed"),
        # As well of a limit of memory, of the network, or of the right to read it.
        ("RuntimeError: can't start new thread", "process-limit"),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): "
            "Max retries exceeded with url: /api/models/x",
            "download-failed",
        ),
        # As well where there is no driver at all: a container that was given no GPU.
        (
            "RuntimeError: CUDA driver version is insufficient for CUDA runtime version",
            "driver-too-old",
        ),
        # As well of a peer that is gone.
        (
            "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<5> with status=IBV_WC_RETRY_EXC_ERR(12)",
            "rdma-timeout",
        ),
        # As well of memory that is used up, or of a card that has no more regions.
        ("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", "memory-lock-limit"),
        # A guess of the program that says it.
        (
            "This might be caused by insufficient shared memory (shm).",
            "shared-memory",
        ),
        # As well of a node that is down.
        ("NCCL WARN Connect to 10.0.0.7<5> failed : No route to host", "unreachable-peer"),
    ],
)
def test_a_line_that_several_causes_bring_is_told_and_not_for_sure(line: str, cause: str) -> None:
    verdict = _judged(line)
    assert verdict.cause == cause
    assert TELL_FROM <= verdict.confidence < SURE_FROM


@pytest.mark.parametrize(
    "line",
    [
        '            "OOMKilled": false,',
        "health: no uncorrectable ECC errors found",
        "health: 0 uncorrectable ECC errors, 0 double bit errors",
        "preflight: no GPU has fallen off the bus",
        "max locked memory       (kbytes, -l) unlimited",
        "            Double Bit Error : 0",
        "tail: inotify cannot be used, reverting to polling: Too many open files",
        "nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 22013, Non-fatal, Link 4 Minion Link DLREQ interrupt",
    ],
)
def test_what_says_that_all_is_well_is_no_sign(line: str) -> None:
    assert not _judged(line).can_tell


def test_a_bus_error_is_less_than_what_fell_off_the_bus() -> None:
    bus = "pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received: 0000:15:01.0"
    xid = "NVRM: Xid (PCI:0000:4e:00): 79, pid=2034, GPU has fallen off the bus."
    assert _judged(bus).cause == "bus-error"
    assert _judged(bus, xid).cause == "gpu-lost"


def test_a_process_that_is_not_of_the_job_was_killed_for_memory() -> None:
    killed = "kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task={},pid=991,uid=0"
    assert _judged(killed.format("python")).confidence >= SURE_FROM
    assert _judged(killed.format("prometheus")).confidence < SURE_FROM


@pytest.mark.parametrize(
    "line",
    [
        # At each start on a host without IPv6.
        "[W socket.cpp:426] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - "
        "Address family not supported by protocol).",
        # Of extensions and libraries that the program does without.
        "image.py:13: UserWarning: Failed to load image extension: 'image.so: undefined symbol: _ZN3c10'",
        "W dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: cannot "
        "open shared object file: No such file or directory",
        "UserWarning: Plan failed with a cudnnException: cudnn_status: CUDNN_STATUS_NOT_SUPPORTED",
        # In words.
        "INFO no CUDA out of memory so far",
        "INFO retrying (attempt 2): Max retries exceeded with url: /api/models/x",
        "INFO: batch size 512 is not divisible by 3, the last batch is dropped",
        "(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM), 1 Workers crashed",
    ],
)
def test_what_healthy_runs_print_too_is_not_told(line: str) -> None:
    assert not _judged(line).can_tell


def test_a_node_that_failed_is_not_a_job_that_somebody_stopped() -> None:
    said = "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-03T10:00:00 DUE TO {}"
    assert _judged(said.format("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***")).cause == "node-lost"
    assert _judged(said.format("TIME LIMIT ***")).cause == "stopped"
