"""The job whose logs lie here: `torchrun --standalone --nproc-per-node 3 job.py FAULT`, gloo, PyTorch 2.13.

`shape` and `op` ran with TORCH_DISTRIBUTED_DEBUG=DETAIL. Paths in the logs were shortened.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

fault = sys.argv[1]
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
rank = dist.get_rank()
x = torch.ones(4)
dist.all_reduce(x)
if fault == "raise" and rank == 1:
    raise KeyError("label 1001")
if fault == "kill" and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if fault == "segv" and rank == 2:
    os.kill(os.getpid(), signal.SIGSEGV)
if fault == "sleep" and rank == 2:
    time.sleep(14)
if fault == "exit" and rank == 1:
    sys.exit(0)
if fault == "monitored":
    if rank == 2:
        time.sleep(12)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=5))
if fault == "shape":
    dist.all_reduce(torch.ones(8 if rank == 1 else 4))
elif fault == "op" and rank == 1:
    dist.broadcast(x, 0)
else:
    dist.all_reduce(x)
if fault == "mem" and rank == 0:
    torch.empty(1 << 48)
dist.barrier()
