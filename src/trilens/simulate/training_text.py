"""What a training program serves on /metrics, for the ranks that run in one pod."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trilens.simulate.training import PHASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.training import TrainingRun


def training_text(job_name: str, run: TrainingRun, ranks: Sequence[int], t_s: float, start_ms: int) -> bytes:
    """`t_s` counts from the world's beginning, at `start_ms`."""
    began_s = start_ms / 1000
    step = math.floor(run.step_at(t_s))
    step_s = run.stretches[-1].step_s
    written, failed = run.written(t_s)
    lines: list[str] = []

    def tell(name: str, kind: str, text: str, values: dict[int, float], more: str = "") -> None:
        if not any(line.startswith(f"# TYPE {name} ") for line in lines):
            lines.extend((f"# HELP {name} {text}", f"# TYPE {name} {kind}"))
        lines.extend(
            f'{name}{{job_name="{job_name}",rank="{rank}"{more}}} {_number(value)}'
            for rank, value in values.items()
        )

    def all_ranks(value: float) -> dict[int, float]:
        return dict.fromkeys(ranks, value)

    tell("training_step", "gauge", "The last step that was finished.", all_ranks(step))
    ended = began_s + run.last_step_s(t_s)
    tell(
        "training_last_step_timestamp_seconds", "gauge", "When the last step was finished.", all_ranks(ended)
    )
    if step > run.first_step:
        loss = {rank: run.loss_on(rank, step) for rank in ranks}
        tell("training_loss", "gauge", "Loss of the last step.", loss)
        tell("training_gradient_norm", "gauge", "Norm of the gradient.", all_ranks(run.gradient_norm(step)))
        speed = 0.0 if step_s == math.inf else run.spec.samples_per_step / step_s
        # A gauge of the last step: a program that hangs does not change it.
        speed = speed or run.spec.samples_per_step / run.stretches[-1].phases.step_s
        tell("training_samples_per_second", "gauge", "Samples a second, of this rank.", all_ranks(speed))
    validation = run.validation_loss(step)
    if validation is not None and 0 in ranks:
        tell("training_validation_loss", "gauge", "Loss on data that was held back.", {0: validation})
    seconds = run.phase_seconds(t_s)
    for phase in PHASES:
        own = {rank: float(seconds[phase][rank]) for rank in ranks}
        tell(
            "training_step_phase_seconds_total", "counter", "Time in each phase of a step.", own,
            f',phase="{phase}"',
        )  # fmt: skip
    in_steps = {rank: sum(float(seconds[phase][rank]) for phase in PHASES) for rank in ranks}
    tell(
        "training_step_seconds_total", "counter", "Time in steps, the wait for their data included.", in_steps
    )
    steps = all_ranks(step - run.first_step)
    tell("training_steps_total", "counter", "Steps since the program started.", steps)
    if 0 in ranks:
        tell("training_checkpoint_writes_total", "counter", "Checkpoints written.", {0: written})
        tell("training_checkpoint_failures_total", "counter", "Checkpoints that failed.", {0: failed})
        tell("training_checkpoint_last_step", "gauge", "Step of the last good one.", {0: run.saved_step(t_s)})
        if (saved_s := run.saved_s(t_s)) is not None:
            tell(
                "training_checkpoint_last_timestamp_seconds", "gauge", "When the last good one was begun.",
                {0: began_s + saved_s},
            )  # fmt: skip
        if written:
            tell(
                "training_checkpoint_duration_seconds", "gauge", "How long the last one took.",
                {0: run.spec.checkpoint},
            )  # fmt: skip
            size = run.spec.checkpoint_bytes
            tell("training_checkpoint_size_bytes", "gauge", "Size of the last one.", {0: size})
    return ("\n".join(lines) + "\n").encode()


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else repr(value)
