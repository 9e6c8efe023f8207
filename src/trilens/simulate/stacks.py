"""Where the threads of a simulated rank stand while it hangs, as the SDK sends what faulthandler
writes: the program's own thread first."""

from __future__ import annotations

from typing import Final

_PROGRAM: Final = (
    ("/workspace/train.py", 214, "train_step"),
    ("/workspace/train.py", 251, "main"),
    ("/workspace/train.py", 260, "<module>"),
)
_WAITS: Final = (
    ("/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 2806, "all_reduce"),
    ("/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", 81, "wrapper"),
    ("/workspace/sync.py", 47, "reduce_gradients"),
)
_COMPUTES: Final = (
    ("/workspace/kernels.py", 133, "backward"),
    ("/usr/lib/python3/dist-packages/torch/autograd/graph.py", 829, "_engine_run_backward"),
    ("/usr/lib/python3/dist-packages/torch/_tensor.py", 648, "backward"),
)
_LOADS: Final = (
    ("/usr/lib/python3.12/multiprocessing/connection.py", 1136, "wait"),
    ("/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 1275, "_try_get_data"),
    ("/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 701, "__next__"),
)
_STANDS: Final = {"grad_sync": _WAITS, "backward": _COMPUTES, "data": _LOADS}  # by the phase of its step
_PINNING: Final = (
    ("/usr/lib/python3.12/threading.py", 359, "wait"),
    ("/usr/lib/python3.12/queue.py", 180, "get"),
    ("/usr/lib/python3/dist-packages/torch/utils/data/_utils/pin_memory.py", 38, "_pin_memory_loop"),
)

_WATCHDOG: Final = (
    ("/usr/lib/python3/dist-packages/trilens/sdk/distributed/stacks.py", 64, "dump"),
    ("/usr/lib/python3/dist-packages/trilens/sdk/distributed/watchdog.py", 118, "_tell_stalled"),
    ("/usr/lib/python3.12/threading.py", 1012, "run"),
)


def hung_stacks(phase: str) -> bytes:
    """Of a rank that stands in this phase: in the collective, or where it cannot come to it."""
    threads = (
        ("Thread 0x00007f3c1f4b4740 (most recent call first):", (*_STANDS[phase], *_PROGRAM)),
        ("Thread 0x00007f3a5bfff6c0 (most recent call first):", _PINNING),
        ("Current thread 0x00007f3a4a7fc6c0 (most recent call first):", _WATCHDOG),
    )
    written = (
        "\n".join((title, *(f'  File "{file}", line {line} in {name}' for file, line, name in frames)))
        for title, frames in threads
    )
    return ("\n\n".join(written) + "\n").encode()
