"""A run that is killed, and goes on from its last checkpoint: one run, two lives.

    python examples/training/resume_after_crash.py [FOLDER]

The program starts itself as a child, which is killed with SIGKILL in the middle of step 8; a second child
resumes from the checkpoint of step 5. Both have the run's id from the environment, as a job that is
restarted has. What the first one did is kept up to its last flush: the records say which steps were done
twice, and with which samples.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import trilens

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "trained")
STEPS = 10
CHECKPOINT = FOLDER / "weights.txt"


def train(crash_at: int | None) -> None:
    """One weight that is drawn towards 3. No framework: the SDK needs none."""
    run = trilens.init(experiment="examples", name="resume-after-crash", total_steps=STEPS)
    weight, first = 0.0, 1
    if CHECKPOINT.exists():
        done, weight = map(float, CHECKPOINT.read_text().split())
        first = int(done) + 1
        run.resumed(int(done), CHECKPOINT)
    for step in range(first, STEPS + 1):
        with run.step(step):
            run.batch(ids=range(step * 4, step * 4 + 4), dataset="numbers")
            time.sleep(0.2)  # the work of a step
            weight += 0.3 * (3.0 - weight)
            run.log(loss=(3.0 - weight) ** 2)
            if step == crash_at:
                os.kill(os.getpid(), signal.SIGKILL)
        if step % 5 == 0:
            with run.checkpoint(CHECKPOINT, step):
                CHECKPOINT.write_text(f"{step} {weight}")
    run.finish()


if len(sys.argv) > 2:
    train(int(sys.argv[2]) or None)
else:
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TRILENS_RUN_ID", f"resume-after-crash-{os.getpid()}")
    os.environ.setdefault("TRILENS_INTERVAL_S", "0.1")  # flushes often, as these steps are short
    for crash_at in (8, 0):
        child = subprocess.run([sys.executable, __file__, str(FOLDER), str(crash_at)])
        print("a life ended:", "killed" if child.returncode < 0 else "finished")
