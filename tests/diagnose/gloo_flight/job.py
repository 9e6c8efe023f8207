"""Four ranks over gloo, one of which does something else, and what their flight recorders say of it.

`python job.py FAULT... DIR` writes DIR/FAULT.json with the dumps and stacks of all ranks, as they were after
a while. Those that lie here were made so with PyTorch 2.13; paths in them are shortened.
"""

from __future__ import annotations

import datetime
import json
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")

import torch
import torch.distributed as dist

from trilens.sdk.distributed.stacks import StacksFile

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = 4
HANGS_S = 60.0  # longer than anybody looks
LOOK_S = 2.0
ALL_LOOKED_S = 12.0


def all_well(_: int) -> None:
    dist.all_reduce(torch.ones(8))


def rank_sleeps(rank: int) -> None:
    if rank == 2:
        time.sleep(HANGS_S)
    dist.all_reduce(torch.ones(8))


def another_collective(rank: int) -> None:
    if rank == 1:
        dist.broadcast(torch.ones(8), src=0)
    dist.all_reduce(torch.ones(8))


def another_shape(rank: int) -> None:
    dist.all_reduce(torch.ones(16 if rank == 1 else 8))


def another_dtype(rank: int) -> None:
    dist.all_reduce(torch.ones(8, dtype=torch.float64 if rank == 3 else torch.float32))


def left_one_out(rank: int) -> None:
    if rank != 3:
        dist.all_reduce(torch.ones(8))
    dist.barrier()
    dist.all_reduce(torch.ones(4))


def rank_raised(rank: int) -> None:
    if rank == 1:
        raise KeyError("label 1001")
    dist.all_reduce(torch.ones(8))


def group_in_between(rank: int) -> None:
    """Ranks 0 and 1 wait for 2, which waits in a group of its own for 3, which sleeps."""
    pair = dist.new_group([2, 3], group_desc="tp")
    if rank in (2, 3):
        dist.all_reduce(torch.ones(2), group=pair)
        if rank == 3:
            time.sleep(HANGS_S)
        dist.all_reduce(torch.ones(2), group=pair)
    dist.all_reduce(torch.ones(8))


def groups_in_a_circle(rank: int) -> None:
    """Ranks 1 and 2 are in two groups and use them in different orders."""
    left = dist.new_group([0, 1, 2], group_desc="left")
    right = dist.new_group([1, 2, 3], group_desc="right")
    both = [one for one, ranks in ((left, (0, 1, 2)), (right, (1, 2, 3))) if rank in ranks]
    for group in both:
        dist.barrier(group=group)
    for group in reversed(both) if rank == 2 else both:
        dist.all_reduce(torch.ones(8), group=group)


def waits_in_a_receive(rank: int) -> None:
    """Rank 1 waits for rank 2, which sleeps; gloo records no receives."""
    if rank == 2:
        time.sleep(HANGS_S)
    if rank == 1:
        dist.recv(torch.ones(8), src=2)
    dist.all_reduce(torch.ones(8))


FAULTS: dict[str, Callable[[int], None]] = {
    one.__name__: one
    for one in (
        all_well, rank_sleeps, another_collective, another_shape, another_dtype, left_one_out, rank_raised,
        group_in_between, groups_in_a_circle, waits_in_a_receive,
    )
}  # fmt: skip


def run(fault: str, folder: Path, *, frames: bool = True) -> None:
    """Ranks are forked: PyTorch takes seconds to load, and to name the first frames."""
    ranks = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            _rank(fault, rank, folder, frames=frames)
        ranks.append(pid)
    for pid in ranks:
        os.waitpid(pid, 0)


def _rank(fault: str, rank: int, folder: Path, *, frames: bool) -> None:
    signal.alarm(30)  # and it ends, whatever hangs
    store = dist.FileStore(str(folder / "store"), RANKS)
    timeout = datetime.timedelta(seconds=HANGS_S)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, store=store, timeout=timeout)
    dist.barrier()
    stacks = StacksFile(folder / "spool", "run", rank)

    def look() -> None:
        dump = torch._C._distributed_c10d._dump_fr_trace(includeStackTraces=frames)  # may take seconds
        (folder / f"trace_rank_{rank}").write_bytes(dump)
        (folder / f"stacks-rank{rank}.txt").write_bytes(stacks.dump())
        # Whoever ends before the others have looked breaks what they wait in.
        until_s = time.monotonic() + ALL_LOOKED_S
        while len(list(folder.glob("stacks-rank*.txt"))) < RANKS and time.monotonic() < until_s:
            time.sleep(0.05)
        os._exit(0)

    threading.Timer(LOOK_S, look).start()
    try:
        FAULTS[fault](rank)
    except KeyError:
        os._exit(1)
    except RuntimeError:  # gloo noticed it; a program would end here, and so not dump
        pass
    threading.Event().wait()


def recorded(folder: Path) -> dict[str, Any]:
    dumps = {
        file.name: json.loads(_short(json.dumps(pickle.loads(file.read_bytes()))))
        for file in sorted(folder.glob("trace_rank_*"))
    }
    stacks = {file.name: _short(file.read_text()) for file in sorted(folder.glob("stacks-rank*.txt"))}
    return {"dumps": dumps, "stacks": stacks}


def _short(text: str) -> str:
    text = re.sub(r'[^" ]*/site-packages/', "/usr/lib/python3/site-packages/", text)
    text = text.replace(str(Path(__file__).resolve()), "/train/job.py").replace(__file__, "/train/job.py")
    text = re.sub(r'[^" ]*/src/trilens/', "/usr/lib/python3/site-packages/trilens/", text)
    return re.sub(r'[^" ]*/(threading|contextlib)\.py', r"/usr/lib/python3/\1.py", text)


if __name__ == "__main__":
    *faults, where = sys.argv[1:]
    for name in faults or FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            run(name, Path(folder))
            Path(where, f"{name}.json").write_text(json.dumps(recorded(Path(folder))) + "\n")
