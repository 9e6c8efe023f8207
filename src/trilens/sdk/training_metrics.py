"""The metrics of a training program, under the names people know, from its finished steps."""

from __future__ import annotations

from math import isfinite
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Final

from trilens.model.progress import Progress
from trilens.sdk.metrics import metric_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.sdk.recorder import Recorder
    from trilens.sdk.step_note import StepNote

# What people call a value when they log it, and what everybody calls it on /metrics.
_LOSS: Final = ("training_loss", "Loss of the last step.")
_NORM: Final = ("training_gradient_norm", "Norm of the gradient.")
_RATE: Final = ("training_learning_rate", "Learning rate of the last step.")
KNOWN_VALUES: Final = {
    **dict.fromkeys(("loss", "train_loss", "train/loss"), _LOSS),
    **dict.fromkeys(("grad_norm", "gradient_norm", "train/grad_norm"), _NORM),
    **dict.fromkeys(("lr", "learning_rate", "train/learning_rate"), _RATE),
}
# Every name that is given here: a logged value of that name is shown under another.
TRAINING_METRICS: Final = {
    "training_step": "The last step that was finished.",
    "training_steps_total": "Steps since the program started.",
    "training_step_seconds_total": "Time in steps, the wait for their data included.",
    "training_last_step_timestamp_seconds": "When the last step was finished.",
    "training_step_phase_seconds_total": "Time in each phase of a step.",
    "training_step_device_phase_seconds_total": "Time of the GPU in each phase of a step.",
    "training_samples_total": "Samples seen by this rank.",
    "training_samples_per_second": "Samples a second, of this rank.",
    "training_tokens_total": "Tokens seen by this rank.",
    "training_tokens_per_second": "Tokens a second, of this rank.",
    "training_epoch": "Epoch of the last step.",
    "training_flops_per_second": "Floating-point operations of the model a second, of this rank.",
    "training_mfu_ratio": "The same as a share of what the GPUs of this rank can do at most.",
    "training_progress_ratio": "Share of all steps that is done.",
    "training_time_left_seconds": "How long the steps that are left will take.",
    "training_time_left_low_seconds": "Lower bound of it, for four of five cases.",
    "training_time_left_high_seconds": "Upper bound of it, for four of five cases.",
    "training_nonfinite_values_total": "Logged values that were NaN or infinite.",
    "training_checkpoint_writes_total": "Checkpoints written.",
    "training_checkpoint_failures_total": "Checkpoints that failed.",
    "training_checkpoint_last_step": "Step of the last good one.",
    "training_checkpoint_last_timestamp_seconds": "When the last good one was begun.",
    "training_checkpoint_duration_seconds": "How long the last one took.",
    "training_checkpoint_size_bytes": "Size of the last one.",
    "training_validation_duration_seconds": "How long the last one took.",
}
MOST_VALUES: Final = 500  # names; more are in the records only


class _Rate:
    """Over the steps that said how many they had: of the others it is unknown, not none."""

    def __init__(self) -> None:
        self.count = 0
        self._ns = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self._ns += ns

    @property
    def is_known(self) -> bool:
        return self._ns > 0

    @property
    def per_second(self) -> float:
        return self.count / (self._ns / 1e9)


class TrainingMetrics:
    """Used by the background thread; the metrics themselves may be read by any."""

    def __init__(self, recorder: Recorder, total_steps: int | None) -> None:
        self._recorder = recorder
        self._metrics = recorder.metrics
        self._progress = Progress(total_steps)
        self._shown: dict[str, tuple[str, str] | None] = {}  # by what the program calls a value
        self._taken: set[str] = set()
        self._nonfinite: set[str] = set()
        recorder.metrics.before_scrape(self._refresh)

    def add_steps(self, steps: Sequence[StepNote]) -> None:
        phases: dict[str, int] = {}
        device: dict[str, int] = {}
        values: dict[str, float] = {}
        samples, tokens = _Rate(), _Rate()
        duration_ns = 0
        epoch: int | None = None
        for _, step, start, end, own, logged, own_device, seen, read, of_epoch, _, _ in steps:
            duration_ns += end - start
            for name, ns in own.items():
                phases[name] = phases.get(name, 0) + ns
            for name, us in own_device.items():
                device[name] = device.get(name, 0) + us
            if not all(map(isfinite, logged.values())):
                self._note_nonfinite(step, logged)
            values.update(logged)
            if seen is not None:
                samples.add(seen, end - start)
            if read is not None:
                tokens.add(read, end - start)
            epoch = epoch if of_epoch is None else of_epoch
            self._progress.add(step, end)
        self._gauge("training_step", steps[-1][1])
        self._count("training_steps_total", len(steps))
        self._count("training_step_seconds_total", duration_ns / 1e9)
        for name, ns in phases.items():
            self._count("training_step_phase_seconds_total", ns / 1e9, {"phase": name})
        for name, us in device.items():
            self._count("training_step_device_phase_seconds_total", us / 1e6, {"phase": name})
        if epoch is not None:
            self._gauge("training_epoch", epoch)
        self._show_speed(len(steps), samples, tokens, duration_ns / 1e9)
        self.show_values(values)

    def set_total_steps(self, total_steps: int) -> None:
        self._progress.total_steps = int(total_steps)

    def show_values(self, values: Mapping[str, float], prefix: str = "training_") -> None:
        for name, value in values.items():
            key = prefix + name
            shown = self._shown[key] if key in self._shown else self._choose(prefix, name)
            if shown is not None:
                self._metrics.gauge(shown[0], shown[1], value)

    def show_checkpoint(
        self, step: int, ok: bool, started_ms: int, duration_us: int | None, size_bytes: int | None
    ) -> None:
        self._count("training_checkpoint_writes_total", 1 if ok else 0)
        self._count("training_checkpoint_failures_total", 0 if ok else 1)
        if not ok:
            return
        self._gauge("training_checkpoint_last_step", step)
        self._gauge("training_checkpoint_last_timestamp_seconds", started_ms / 1e3)
        if duration_us is not None:
            self._gauge("training_checkpoint_duration_seconds", duration_us / 1e6)
        if size_bytes is not None:
            self._gauge("training_checkpoint_size_bytes", size_bytes)

    def show_validation(self, values: Mapping[str, float], duration_us: int | None) -> None:
        self.show_values(values, "training_validation_")
        if duration_us is not None:
            self._gauge("training_validation_duration_seconds", duration_us / 1e6)

    def _show_speed(self, steps: int, samples: _Rate, tokens: _Rate, seconds: float) -> None:
        """Over the steps of about a second. A program that hangs does not change it."""
        if samples.is_known:
            self._count("training_samples_total", samples.count)
            self._gauge("training_samples_per_second", samples.per_second)
        if tokens.is_known:
            self._count("training_tokens_total", tokens.count)
            self._gauge("training_tokens_per_second", tokens.per_second)
        if seconds <= 0:
            return
        recorder = self._recorder
        flops: float | None = None
        if recorder.flops_per_step:
            flops = recorder.flops_per_step * steps / seconds
        elif recorder.flops_per_token and tokens.is_known:
            flops = recorder.flops_per_token * tokens.per_second
        if flops is not None:
            self._gauge("training_flops_per_second", flops)
            if recorder.peak_flops_per_second:
                self._gauge("training_mfu_ratio", flops / recorder.peak_flops_per_second)

    def _note_nonfinite(self, step: int, values: Mapping[str, float]) -> None:
        """Every one is counted; the first of each name is an event of its own."""
        for name, value in values.items():
            if isfinite(value):
                continue
            self._count("training_nonfinite_values_total", 1, {"value": name})
            if name not in self._nonfinite:
                self._nonfinite.add(name)
                self._recorder.note(
                    "nonfinite", f"{name} was {value} in step {step}", step=step, data={"value": name}
                )

    def _choose(self, prefix: str, name: str) -> tuple[str, str] | None:
        """The metric of a value; None when its name is another's already, or there are too many."""
        shown = KNOWN_VALUES.get(name) if prefix == "training_" else None
        if shown is None:
            metric = prefix + metric_name(name)
            if metric in TRAINING_METRICS:
                metric = f"training_logged_{metric.removeprefix('training_')}"
            shown = (metric, f"{name}, as logged by the program.")
            if metric in self._taken:
                self._recorder.guard.lost("metric", why=f"{name!r} would be shown as {metric}, as another is")
                shown = None
            elif len(self._taken) >= MOST_VALUES:
                self._recorder.guard.lost(
                    "metric", why=f"more than {MOST_VALUES} names of values were logged"
                )
                shown = None
        if shown is not None:
            self._taken.add(shown[0])
        if len(self._shown) < 10 * MOST_VALUES:
            self._shown[prefix + name] = shown
        return shown

    def _refresh(self) -> None:
        """What is worked out when somebody asks."""
        ended = self._recorder.last_step_ended_ns
        if ended is not None:
            ended_s = (ended + time_ns() - monotonic_ns()) / 1e9
            self._gauge("training_last_step_timestamp_seconds", ended_s)
        if (ratio := self._progress.ratio) is not None:
            self._gauge("training_progress_ratio", ratio)
            left = self._progress.time_left()
            if left is not None:
                self._gauge("training_time_left_seconds", left.seconds)
                self._gauge("training_time_left_low_seconds", left.low)
                self._gauge("training_time_left_high_seconds", left.high)

    def _gauge(self, name: str, value: float) -> None:
        self._metrics.gauge(name, TRAINING_METRICS[name], value)

    def _count(self, name: str, by: float, labels: Mapping[str, str] | None = None) -> None:
        self._metrics.count(name, TRAINING_METRICS[name], by, labels)
