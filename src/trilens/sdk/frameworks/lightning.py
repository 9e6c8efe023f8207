"""Lightning: `Trainer(..., callbacks=[TrilensCallback()])`, of `lightning` and of `pytorch_lightning`.

A step has the number that `global_step` has after it. Lightning runs forward and backward inside the
optimizer's step, as a closure: the phases come from its own hooks, which know where they are.
"""

from __future__ import annotations

import sys
from importlib import import_module
from math import isfinite
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from trilens.sdk.frameworks.training import Training, run_for_training
from trilens.sdk.guard import Guard
from trilens.sdk.pytorch import parallel
from trilens.sdk.pytorch.backward import Backward
from trilens.sdk.pytorch.cuda import note_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.sdk.run import Run

P = ParamSpec("P")

_PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")
_SETTINGS: Final = ("accumulate_grad_batches", "gradient_clip_val", "max_epochs", "max_steps", "precision")


def _base() -> Any:
    """Of the package that the program has loaded, else of the one that is there. Their hooks are the same."""
    for name in _PACKAGES:
        if name in sys.modules:
            return sys.modules[name].Callback
    try:
        return import_module(_PACKAGES[0]).Callback
    except ImportError:
        return import_module(_PACKAGES[1]).Callback


class TrilensCallback(_base()):  # type: ignore[misc]
    """Tells a Trainer's `fit`: to `run`, else to the run that is there, else to a new one."""

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
        self._training: FitTraining | None = None

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if not Training.is_told(trainer):
            Guard().run("trainer event", self._begin, trainer, pl_module)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._tell(FitTraining.begin_training)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._tell(FitTraining.begin_batch)

    def on_before_zero_grad(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self._tell(FitTraining.leave, "forward")

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self._tell(FitTraining.begin_backward, loss)

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        self._tell(FitTraining.leave, "backward")

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self._tell(FitTraining.begin_optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._tell(FitTraining.end_batch, outputs)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._tell(FitTraining.begin_validation)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._tell(FitTraining.end_validation)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._tell(FitTraining.fail, exception)
        self._training = None

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._tell(FitTraining.end)
        self._training = None

    def _begin(self, trainer: Any, pl_module: Any) -> None:
        settings = {name: getattr(trainer, name, None) for name in _SETTINGS}
        run = run_for_training(
            self._run,
            experiment=self._experiment,
            name=self._name,
            tags=self._tags,
            config={**settings, **pl_module.hparams},
            total_steps=None,
        )
        self._training = FitTraining(run, trainer)

    def _tell(
        self, event: Callable[Concatenate[FitTraining, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Nothing where another callback tells. What goes wrong in here must not reach the Trainer."""
        training = self._training
        if training is not None:
            training.recorder.guard.run("trainer event", event, training, *args, **kwargs)


class FitTraining(Training):
    def __init__(self, run: Run, trainer: Any) -> None:
        super().__init__(run, trainer, self._feeds)
        self._trainer = trainer
        self._loss: Any = None  # over the batches of the step in progress
        self._steps_before = 0
        self._validation_ns = 0
        self._backward = Backward(self.recorder)
        self._synchronises = False
        self._is_automatic = True
        self._save = trainer.save_checkpoint
        trainer.save_checkpoint = self._save_checkpoint

    def begin_training(self) -> None:
        trainer = self._trainer
        self._synchronises = parallel.synchronises(trainer.model)
        device = trainer.strategy.root_device
        if device.type == "cuda":
            note_devices(self.recorder, device.index)
        self._is_automatic = trainer.lightning_module.automatic_optimization
        if not self._is_automatic:  # the module steps its optimizers itself, each when it likes
            self.run.watch(None, list(trainer.optimizers))
        steps = trainer.estimated_stepping_batches
        self.run.describe(total_steps=int(steps) if isfinite(steps) else None)
        if trainer.global_step > 0:
            self.run.resumed(trainer.global_step, trainer.ckpt_path or "")
        if not _is_loader(trainer.train_dataloader):
            self.doubt_samples("not one DataLoader")

    def _feeds(self, loader: Any) -> bool:
        trainer = self._trainer
        is_evaluating = trainer.sanity_checking or trainer.validating  # which may be on the same loader
        return loader is trainer.train_dataloader and not is_evaluating

    def begin_batch(self) -> None:
        trainer = self._trainer
        if not self.recorder.in_step:
            self._steps_before = trainer.global_step
            self.begin_step(trainer.global_step + 1, trainer.current_epoch)
        self.use_batch()
        if self._is_automatic:
            self.enter("forward")

    def begin_backward(self, loss: Any) -> None:
        self.leave("forward")
        self.enter("backward")
        if self._synchronises:
            now = parallel.synchronises_now(self._trainer.model)
            self._backward.expect(loss, synchronises=now)

    def begin_optimizer(self) -> None:
        if self._is_automatic:
            self.enter("optimizer")

    def end_batch(self, outputs: Any) -> None:
        trainer = self._trainer
        self.leave("forward")
        self.leave("optimizer")
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:  # Lightning has divided it by the number of batches that make a step
            self._loss = loss if self._loss is None else self._loss + loss
        if trainer.global_step == self._steps_before:
            return  # gradients accumulate: the step goes on
        values = _logged(trainer)
        if trainer.optimizers:
            values["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
        if self._loss is not None:
            values["loss"], self._loss = self._loss, None
        self.recorder.log(values)
        self.recorder.end_step()

    def begin_validation(self) -> None:
        if not self._trainer.sanity_checking:
            self._validation_ns = monotonic_ns()
            self.recorder.begin_activity("validation")

    def end_validation(self) -> None:
        trainer = self._trainer
        if not trainer.sanity_checking:
            validation = self.run.validation(_logged(trainer), step=trainer.global_step)
            validation.lasted(monotonic_ns() - self._validation_ns)
            self.recorder.end_activity("validation")

    def enter(self, phase: str) -> None:
        self.recorder.enter_phase(phase)

    def leave(self, phase: str) -> None:
        self.recorder.leave_phase(phase)

    def fail(self, error: BaseException) -> None:
        self.recorder.abort_step(error)
        self.end()

    def end(self) -> None:
        super().end()
        self._trainer.save_checkpoint = self._save

    def _save_checkpoint(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Lightning tells callbacks that it will save, but neither where nor whether it did."""
        if not self._trainer.is_global_zero:
            self._save(filepath, *args, **kwargs)
            return
        with self.run.checkpoint(filepath, self._trainer.global_step):
            self._save(filepath, *args, **kwargs)


def _logged(trainer: Any) -> dict[str, Any]:
    """What the module logged by `self.log` in this batch, or over the validation that has just ended.

    Lightning's own list of them reads those of the progress bar back from the device, in every step.
    """
    from torch import Tensor

    results, on_step = trainer._results, trainer._logger_connector._first_loop_iter is not None
    values = {
        results._forked_name(result, on_step)[1]: results._get_cache(result, on_step)
        for _, result in results.valid_items()
        if result.meta.logger
    }
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _is_loader(loader: Any) -> bool:
    from torch.utils.data import DataLoader

    return isinstance(loader, DataLoader)
