"""One rank of a small real training over gloo, which does wrong what it is told to.

    gloo_rank.py RANK WORLD PORT WRONG ONSET_FILE

WRONG is `none`, `sleep`, `gil` or `slow`; when it begins, the time is written to ONSET_FILE.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import trilens

FROM_STEP = 60
STEP_S = 0.4
LONG_S = 600.0


def main() -> None:
    rank, world, port, wrong, onset = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
    }
    dist.init_process_group("gloo", rank=rank, world_size=world)
    run = trilens.init(experiment="real-faults", name="gloo")
    gradient = torch.zeros(1024)
    step = 0
    while True:
        computes_s = STEP_S
        with run.step():
            if step == FROM_STEP and wrong != "none":
                Path(onset).write_text(str(time.time()))
            with run.phase("forward"):
                if wrong == "slow" and step >= FROM_STEP:
                    computes_s *= 1.5
                time.sleep(computes_s)
            with run.phase("backward"):
                if wrong == "sleep" and step >= FROM_STEP:
                    time.sleep(LONG_S)
                if wrong == "gil" and step >= FROM_STEP:
                    ctypes.PyDLL(None).sleep(int(LONG_S))  # a call that keeps the interpreter
            with run.phase("grad_sync"):
                dist.all_reduce(gradient)
            run.log(loss=5.0 / (1 + step / 50))
        step += 1


if __name__ == "__main__":
    main()
