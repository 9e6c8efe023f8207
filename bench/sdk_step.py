"""What one step costs a program: Trilens beside W&B, MLflow and prometheus-client by hand.

Each runs in a process of its own, and only the calls are timed: in bursts, one step after the other; and
with about a millisecond of other work between steps, done without Python's lock: the caches are cold then.
`python -m bench.sdk_step NAME STEPS` measures one and prints JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

PHASES = ("forward", "backward", "optimizer")
STEPS = {
    "bare loop": 4_000,
    "Trilens": 4_000,
    "prometheus-client": 4_000,
    "wandb.log": 2_000,
    "mlflow.log_metrics": 200,
}
WORK = bytes(1_000_000)  # to be hashed: a millisecond
BURST = 200
STARTS = 11
NOWHERE = "http://127.0.0.1:1"


class StepCost(NamedTuple):
    name: str
    steps: int
    burst_us: float  # medians
    median_us: float
    mean_us: float
    cpu_us: float  # of the whole process, all threads, for one step of a burst


class SdkResult(NamedTuple):
    costs: list[StepCost]
    import_ms: float
    import_init_ms: float
    first_run_ms: float  # from nothing to a run that records
    memory_mb: float  # what the SDK adds, after 100,000 steps
    memory_steps_lost: int


def run(out: Path) -> SdkResult:
    costs = [StepCost(**_measured(out, name, str(steps))) for name, steps in STEPS.items()]
    memory = _measured(out, "memory", "100000")
    return SdkResult(
        costs,
        _start_ms(out, "import trilens"),
        _start_ms(out, "import trilens; trilens.init"),
        _start_ms(out, f"import trilens; trilens.init(server={NOWHERE!r})"),
        memory["mb"],
        memory["lost"],
    )


def _measured(out: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.sdk_step", *arguments]
    done = subprocess.run(command, env=_environment(out), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _start_ms(out: Path, code: str) -> float:
    """Median over fresh processes, of the statement alone."""
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", timed]
    times = [
        float(
            subprocess.run(command, env=_environment(out), capture_output=True, text=True, check=True).stdout
        )
        for _ in range(STARTS)
    ]
    return statistics.median(times) * 1e3


def _environment(out: Path) -> dict[str, str]:
    """Nothing leaves the machine, nothing is read of whoever runs it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRILENS_", "WANDB_", "MLFLOW_"))
    }
    return {**kept, "TRILENS_SPOOL": str(out / "spool"), "WANDB_MODE": "offline", "WANDB_SILENT": "true",
            "WANDB_DIR": str(out), "MLFLOW_TRACKING_URI": f"sqlite:///{out}/mlflow.db"}  # fmt: skip


def trilens_step(stack: ExitStack) -> Callable[[int], None]:
    import trilens

    run = stack.enter_context(trilens.init("bench", server=NOWHERE))

    def step(i: int) -> None:
        with run.step():
            with run.phase("forward"):
                pass
            with run.phase("backward"):
                pass
            with run.phase("optimizer"):
                pass
            run.log(loss=1.5 / (i + 1), grad_norm=0.5, lr=3e-4, accuracy=0.25)

    return step


def prometheus_step(stack: ExitStack) -> Callable[[int], None]:
    """As one would write it with care: every child is looked up once."""
    from prometheus_client import CollectorRegistry, Gauge, Histogram

    registry = CollectorRegistry()
    labels = ("job_name", "rank")
    phase = Histogram("phase_seconds", "Phases.", (*labels, "phase"), registry=registry)
    forward, backward, optimizer = (phase.labels("bench", "0", name) for name in PHASES)
    gauges = [
        Gauge(name, name, labels, registry=registry) for name in ("loss", "norm", "lr", "accuracy", "last")
    ]
    loss, norm, rate, accuracy, last = (gauge.labels("bench", "0") for gauge in gauges)
    clock = time.perf_counter

    def step(i: int) -> None:
        began = clock()
        forward.observe(clock() - began)
        began = clock()
        backward.observe(clock() - began)
        began = clock()
        optimizer.observe(clock() - began)
        loss.set(1.5 / (i + 1))
        norm.set(0.5)
        rate.set(3e-4)
        accuracy.set(0.25)
        last.set_to_current_time()

    return step


def wandb_step(stack: ExitStack) -> Callable[[int], None]:
    import wandb

    run = wandb.init(project="bench", mode="offline")
    stack.callback(run.finish)

    def step(i: int) -> None:
        wandb.log({"loss": 1.5 / (i + 1), "grad_norm": 0.5, "lr": 3e-4, "accuracy": 0.25}, step=i)

    return step


def mlflow_step(stack: ExitStack) -> Callable[[int], None]:
    import mlflow

    mlflow.set_experiment("bench")
    stack.enter_context(mlflow.start_run())

    def step(i: int) -> None:
        mlflow.log_metrics({"loss": 1.5 / (i + 1), "grad_norm": 0.5, "lr": 3e-4, "accuracy": 0.25}, step=i)

    return step


def bare_step(stack: ExitStack) -> Callable[[int], None]:
    return lambda i: None


CONTENDERS = {
    "bare loop": bare_step,
    "Trilens": trilens_step,
    "prometheus-client": prometheus_step,
    "wandb.log": wandb_step,
    "mlflow.log_metrics": mlflow_step,
}


def measure(name: str, steps: int) -> StepCost:
    with ExitStack() as stack:
        step = CONTENDERS[name](stack)
        timed(step, 50, between=None)
        bursts: list[int] = []
        cpu = time.process_time_ns()
        while len(bursts) < steps:
            bursts += timed(step, BURST, between=None)
            time.sleep(0.02)  # what works behind it is done before the next
        cpu = time.process_time_ns() - cpu
        taken = timed(step, steps, between=lambda: blake2b(WORK))
    return StepCost(
        name,
        steps,
        statistics.median(bursts) / 1e3,
        statistics.median(taken) / 1e3,
        statistics.fmean(taken) / 1e3,
        cpu / len(bursts) / 1e3,
    )


def timed(step: Callable[[int], None], steps: int, between: Callable[[], object] | None) -> list[int]:
    clock = time.perf_counter_ns
    taken = [0] * steps
    for i in range(steps):
        began = clock()
        step(i)
        taken[i] = clock() - began
        if between is not None:
            between()
    return taken


def measure_memory(steps: int) -> dict[str, float]:
    before = _resident_mb()
    with ExitStack() as stack:
        step = trilens_step(stack)
        import trilens

        run = trilens.latest_run()
        assert run is not None
        for i in range(steps):
            step(i)
            while len(run.recorder.done) > 2_000:  # no program takes a hundred thousand steps a second
                time.sleep(0.001)
        mb = _resident_mb() - before
        lost = sum(run.recorder.guard.counts().values())
    return {"mb": mb, "lost": lost}


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    name, steps = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(json.dumps(measure_memory(steps) if name == "memory" else measure(name, steps)._asdict()))


if __name__ == "__main__":
    main()
