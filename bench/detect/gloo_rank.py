"""One rank of a small real training over gloo, which does wrong what it is told to.

    gloo_rank.py RANK WORLD PORT WRONG ONSET_FILE

WRONG is `none`, `sleep`, `gil`, `slow`, `raise`, `kill` or `elsewhere`; when it begins, the time is written
to ONSET_FILE.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import trilens

FROM_STEP = 70
STEP_S = 0.3
LONG_S = 600
SLOW = 1.5


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
        goes_wrong = wrong if step >= FROM_STEP else "none"
        with run.step():
            if goes_wrong != "none" and step == FROM_STEP:
                Path(onset).write_text(str(time.time()))
            with run.phase("forward"):
                time.sleep(STEP_S * (SLOW if goes_wrong == "slow" else 1.0))
            with run.phase("backward"):
                if goes_wrong == "sleep":
                    time.sleep(LONG_S)
                elif goes_wrong == "gil":
                    ctypes.PyDLL(None).sleep(LONG_S)  # a call that keeps the interpreter
                elif goes_wrong == "raise":
                    raise ValueError("the shapes of two tensors do not fit")
                elif goes_wrong == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
            if goes_wrong == "elsewhere":  # it waits for a message that nobody sends, the others for it
                dist.recv(gradient, src=(rank + 1) % world, tag=7)
            with run.phase("grad_sync"):
                dist.all_reduce(gradient)
            run.log(loss=5.0 / (1 + step / 50))
        step += 1


if __name__ == "__main__":
    main()
