"""Where the threads of a simulated rank stand while it hangs, as faulthandler writes it."""

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
_IS_WAITED_FOR: Final = (
    ("/workspace/kernels.py", 133, "backward"),
    ("/usr/lib/python3/dist-packages/torch/autograd/graph.py", 829, "_engine_run_backward"),
    ("/usr/lib/python3/dist-packages/torch/_tensor.py", 648, "backward"),
)
_PINNING: Final = (
    ("/usr/lib/python3.12/threading.py", 359, "wait"),
    ("/usr/lib/python3.12/queue.py", 180, "get"),
    ("/usr/lib/python3/dist-packages/torch/utils/data/_utils/pin_memory.py", 38, "_pin_memory_loop"),
)


def hung_stacks(*, is_waited_for: bool) -> bytes:
    """Of a rank in a collective, or of the one that does not come to it."""
    threads = (
        ("Thread 0x00007f3a5bfff6c0 (most recent call first):", _PINNING),
        (
            "Current thread 0x00007f3c1f4b4740 (most recent call first):",
            (*(_IS_WAITED_FOR if is_waited_for else _WAITS), *_PROGRAM),
        ),
    )
    written = (
        "\n".join((title, *(f'  File "{file}", line {line} in {name}' for file, line, name in frames)))
        for title, frames in threads
    )
    return ("\n\n".join(written) + "\n").encode()
