"""What the programs in simulated pods have written lately, down to the words with which they ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.simulate.jobs import PodState
from trilens.simulate.recorded_collectives import hung_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.jobs import SimPod
    from trilens.simulate.serving import InferenceServers
    from trilens.simulate.training import TrainingRun

_EVERY_STEPS: Final = 10
_LINES: Final = 20  # about steps
_NCCL: Final = "2.27.3"


class PodLines(NamedTuple):
    namespace: str
    pod: str
    pod_uid: str
    container: str
    runs: dict[int, list[str]]  # the last one of its container, and the one before


def output_of(pod: SimPod, servers: InferenceServers, t_s: float, start_ms: int) -> PodLines:
    """`t_s` counts from the world's beginning, at `start_ms`."""
    lines = [f"{_written(pod.started_ms)} INFO starting {pod.job.template.image}"]
    if pod.run is not None:
        lines += training_lines(pod.run, pod.ranks[0], t_s, start_ms)
    elif pod.state is PodState.RUNNING and (said := servers.said(pod.uid)) is not None:
        lines.append(f"{_written(start_ms + 1000 * t_s)} INFO {said}")
    runs = {pod.starts - 1: lines}
    if pod.state is not PodState.RUNNING:
        lines += pod.last_words
    elif pod.starts > 1:
        runs[pod.starts - 2] = list(pod.last_words)
    return PodLines(pod.namespace, pod.name, pod.uid, pod.container, runs)


def training_lines(run: TrainingRun, first_rank: int, t_s: float, start_ms: int) -> list[str]:
    """By one rank, of the last steps until then."""
    spec = run.spec
    step = int(run.step_at(t_s))
    lines = []
    if step - _EVERY_STEPS * _LINES <= run.first_step:
        began = _written(start_ms + 1000 * run.started_s)
        lines += [
            f"{began} [rank{first_rank}] NCCL {_NCCL}, world size {run.ranks}, rank {first_rank}",
            f"{began} [rank{first_rank}] "
            + (f"resumed from checkpoint of step {run.first_step}" if run.first_step else "new run"),
        ]
    for number, stretch, at_s in run.step_ends(max(run.first_step, step - _EVERY_STEPS * _LINES), step):
        if number % _EVERY_STEPS == 0:
            lines.append(
                f"{_written(start_ms + 1000 * at_s)} [rank{first_rank}] step {number} | "
                f"loss {run.loss_on(first_rank, number):.4f} | grad norm {run.gradient_norm(number):.3f} | "
                f"{stretch.step_s:.3f} s/step | {spec.samples_per_step / stretch.step_s:.1f} samples/s"
            )
        saved_s = at_s + spec.checkpoint
        if first_rank == 0 and number % spec.checkpoint_every == 0 and saved_s <= t_s:
            told = (
                f"ERROR checkpoint of step {number} was not written: OSError: [Errno 5] Input/output error"
                if stretch.checkpoints_fail
                else f"checkpoint of step {number} written: "
                f"{spec.checkpoint_bytes / 1e9:.1f} GB in {spec.checkpoint:.1f} s"
            )
            lines.append(f"{_written(start_ms + 1000 * saved_s)} [rank0] {told}")
    return lines


def cuda_failure(rank: int | None, error: str) -> tuple[str, ...]:
    return _prefixed(
        rank,
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 214, in <module>',
        "    loss.backward()",
        f"torch.AcceleratorError: CUDA error: {error}",
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
        "might be incorrect.",
    )


def python_failure(rank: int) -> tuple[str, ...]:
    return _prefixed(
        rank,
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 198, in <module>',
        "    batch = collate(next(batches))",
        "KeyError: 'attention_mask'",
    )


def collective_timeout(rank: int, step: int, timeout_s: float) -> tuple[str, ...]:
    """By the watchdog of one that waited."""
    timeout_ms = round(1000 * timeout_s)
    return _prefixed(
        rank,
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={hung_in(step)}, "
        f"OpType=ALLREDUCE, NumelIn=26214400, NumelOut=26214400, Timeout(ms)={timeout_ms}) ran for "
        f"{timeout_ms + 43} milliseconds before timing out.",
        f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
    )


def peer_is_gone(rank: int | None) -> tuple[str, ...]:
    return _prefixed(
        rank,
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, remote process exited or "
        f"there was a network error, NCCL version {_NCCL}",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
    )


def raised(words: Sequence[str], rank: int) -> str | None:
    """The exception that ended this rank, where one did: a process that is aborted or killed raises none."""
    own = [line.removeprefix(f"[rank{rank}]: ") for line in words if line.startswith(f"[rank{rank}]: ")]
    if not own or not own[0].startswith("Traceback"):
        return None
    return next((line for line in own[1:] if not line.startswith(" ")), None)


def _prefixed(rank: int | None, *lines: str) -> tuple[str, ...]:
    """As torch marks what a rank raised."""
    return lines if rank is None else tuple(f"[rank{rank}]: {line}" for line in lines)


def _written(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
