"""Hugging Face Trainer: `Trainer(..., callbacks=[TrilensCallback()])`.

A step has the number that the Trainer gives it in its logs: after the first optimizer step, `global_step`
is 1.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from transformers import TrainerCallback

from trilens.sdk.frameworks.training import Training, run_for_training
from trilens.sdk.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.sdk.run import Run

P = ParamSpec("P")

_NAMES: Final = {"learning_rate": "lr"}  # as everywhere else in Trilens
_COUNTERS: Final = frozenset({"epoch", "num_input_tokens_seen", "total_flos"})  # steps tell these themselves
_PLAIN: Final = (bool, int, float, str)
_SUMMARY: Final = "train_runtime"  # in the logs that sum a training up: they belong to no step
_SPEEDS: Final = ("_runtime", "_per_second", "_preparation_time")  # how fast an evaluation was, not how well


class TrilensCallback(TrainerCallback):  # type: ignore[misc]
    """Tells a Trainer's training: to `run`, else to the run that is there, else to a new one."""

    def __init__(
        self,
        run: Run | None = None,
        *,
        experiment: str | None = None,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self._run = run
        self._experiment = experiment
        self._name = name
        self._tags = tags
        self._training: TrainerTraining | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not Training.is_told(state):
            Guard().run("trainer event", self._begin, args, state, **kwargs)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(TrainerTraining.begin, state)

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(TrainerTraining.use_batch)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(TrainerTraining.finish_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self._tell(TrainerTraining.take_logs, logs or {})

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(TrainerTraining.evaluate)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self._tell(TrainerTraining.take_evaluation, state, metrics or {})

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        self._tell(TrainerTraining.end_evaluation)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(TrainerTraining.take_checkpoint, args, state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._tell(TrainerTraining.end)

    def _begin(self, args: Any, state: Any, **kwargs: Any) -> None:
        run = run_for_training(
            self._run,
            experiment=self._experiment,
            name=self._name or args.run_name,
            tags=self._tags,
            config=_config(args),
            total_steps=state.max_steps,
        )
        self._training = TrainerTraining(run, args, state, kwargs["train_dataloader"])
        self._training.watch(kwargs["model"], kwargs["optimizer"])

    def _tell(
        self, event: Callable[Concatenate[TrainerTraining, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Nothing where another callback tells. What goes wrong in here must not reach the Trainer."""
        training = self._training
        if training is not None:
            training.recorder.guard.run("trainer event", event, training, *args, **kwargs)


class TrainerTraining(Training):
    def __init__(self, run: Run, args: Any, state: Any, loader: Any) -> None:
        super().__init__(run, state, self._feeds)
        self._loader = loader
        self._since_ns = monotonic_ns()  # the Trainer's last word: what it tells next happened since
        if type(loader).__name__ == "DataLoaderDispatcher" and self.recorder.world_size > 1:
            self.doubt_samples("one process reads the batches for all ranks")
        if state.global_step > 0:
            self.run.resumed(state.global_step, _resumed_from(args, state.global_step))

    def _feeds(self, loader: Any) -> bool:
        """Whether it is the DataLoader inside the Trainer's own, or one that skips what was trained on before
        a resume: that has the same batch sampler inside its own."""
        sampler, trained = loader.batch_sampler, self._loader.batch_sampler
        is_same = sampler is trained or getattr(sampler, "batch_sampler", None) is trained
        return is_same and loader.dataset is self._loader.dataset

    def begin(self, state: Any) -> None:
        self.begin_step(state.global_step + 1, int(state.epoch or 0))

    def finish_step(self) -> None:
        self.use_batch()
        self.recorder.end_step()
        self._since_ns = monotonic_ns()

    def take_logs(self, logs: Mapping[str, Any]) -> None:
        """Told after the step has ended, and so kept with it. Evaluations come by `take_evaluation`."""
        if _SUMMARY not in logs and not any(name.startswith("eval_") for name in logs):
            values = {_NAMES.get(name, name): value for name, value in logs.items() if name not in _COUNTERS}
            self.recorder.log(values)
        self._since_ns = monotonic_ns()

    def evaluate(self) -> None:
        self.recorder.begin_activity("validation")

    def take_evaluation(self, state: Any, metrics: Mapping[str, Any]) -> None:
        values = {
            name.removeprefix("eval_"): value
            for name, value in metrics.items()
            if name not in _COUNTERS and not name.endswith(_SPEEDS)
        }
        validation = self.run.validation(values, step=state.global_step)
        if (seconds := metrics.get("eval_runtime")) is not None:
            validation.lasted(int(seconds * 1e9))
        self.end_evaluation()

    def end_evaluation(self) -> None:
        self.recorder.end_activity("validation")
        self._since_ns = monotonic_ns()

    def take_checkpoint(self, args: Any, state: Any) -> None:
        if state.is_world_process_zero:  # the others wait for it, or have written their part of the folder
            path = _checkpoint_folder(args, state.global_step)
            self.run.checkpoint(path, state.global_step).lasted(monotonic_ns() - self._since_ns)
        self._since_ns = monotonic_ns()


def _config(args: Any) -> dict[str, object]:
    """The arguments that are plain values. Of tokens, the Trainer gives only the name."""
    return {
        name: value for name, value in args.to_dict().items() if isinstance(value, bool | int | float | str)
    }


def _checkpoint_folder(args: Any, step: int) -> Path:
    return Path(args.output_dir) / f"checkpoint-{step}"


def _resumed_from(args: Any, step: int) -> str:
    """Callbacks are not told. It is where the Trainer looks by itself, if it is there."""
    if isinstance(args.resume_from_checkpoint, str):
        return args.resume_from_checkpoint
    folder = _checkpoint_folder(args, step)
    return str(folder) if folder.is_dir() else ""
