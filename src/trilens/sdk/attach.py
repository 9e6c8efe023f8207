"""Watching a program that does not know of it: what `trilens run` puts into every Python it starts.

Nothing is imported for the program, and nothing begins before it trains: modules are waited for, and the
first step of an optimizer begins a run. In the program itself (not in the processes that it starts) a run
also begins without one, after a while: then it tells only that the program lives. A program that calls
`trilens.init` takes the run over; a Hugging Face Trainer or a Lightning Trainer gets its callback.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.after_import import after_import
from trilens.sdk.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from trilens.sdk.frameworks.pairing import Pairing
    from trilens.sdk.run import Run

LOOK_S: Final = 0.5
ALONE_S: Final = 2.0  # a program that runs so long without PyTorch gets a run that tells that it lives
LOADED_S: Final = 20.0  # with PyTorch: it may be a launcher yet, or a program whose first step takes long

_LAUNCHERS: Final = (
    "torch.distributed.launcher.api",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
)
_SEES: Final = "watched by trilens run: steps, phases and the learning rate are seen; a loss is not"
_SEES_TRAINER: Final = "watched by trilens run: what the program's Trainer tells is seen"
_SEES_LIFE: Final = "watched by trilens run: only that it lives is seen until an optimizer of PyTorch steps"


def install(*, is_main: bool) -> None:
    """Before the program begins. `is_main`: this is the process that `trilens run` became."""
    global _attachment
    _attachment = attachment = Attachment()
    os.register_at_fork(after_in_child=attachment.leave_to_parent)
    after_import(
        {
            "torch.optim.optimizer": attachment.watch_optimizers,
            "torch.utils.data.dataloader": attachment.watch_loaders,
            "transformers.trainer": attachment.add_to_trainer,
            "lightning.pytorch.trainer.trainer": attachment.add_to_lightning,
            "pytorch_lightning.trainer.trainer": attachment.add_to_lightning,
            **dict.fromkeys(_LAUNCHERS, attachment.leave_to_children),
        }
    )
    if is_main:
        threading.Thread(target=attachment.begin_when_alone, name="trilens-attach", daemon=True).start()


def hand_over() -> Run | None:
    """The program tells of itself from now on: in the run that was begun for it, if there is one."""
    return None if _attachment is None else _attachment.hand_over()


def begin_for_trainer(told: Mapping[str, Any]) -> Run | None:
    """What a Trainer's callback tells to, in a program that has begun no run. `told` are arguments of
    `init`."""
    return None if _attachment is None else _attachment.begin(_SEES_TRAINER, told)


class Attachment:
    def __init__(self) -> None:
        self._guard = Guard()
        self._lock = threading.RLock()  # two threads may begin the run: the program's, and the one that waits
        self._aside = threading.Event()
        self._run: Run | None = None
        self._seen: str | None = None  # what was last noted to be seen of the program
        self._is_beginning = False
        self._pairing: Pairing | None = None
        self._models: weakref.WeakSet[Any] = weakref.WeakSet()  # those that are watched

    # -- right after an import ------------------------------------------------------------------------------

    def watch_optimizers(self, module: ModuleType) -> None:
        self._guard.run("attach", self._hook, module)

    def watch_loaders(self, module: ModuleType) -> None:
        self._guard.run("attach", self._pair)

    def add_to_trainer(self, module: ModuleType) -> None:
        """The list of callbacks that every Trainer of Hugging Face begins with."""
        self._guard.run("attach", _add_to_trainer, module)

    def add_to_lightning(self, module: ModuleType) -> None:
        self._guard.run("attach", _add_to_lightning, module, self._guard)

    def leave_to_children(self, module: ModuleType) -> None:
        """A launcher does not train: the processes that it starts do. Where PyTorch takes long to load, a run
        has begun for it."""
        run = self.hand_over()
        if run is not None:
            run.finish()

    # -- in the program -------------------------------------------------------------------------------------

    def step_aside(self) -> None:
        self._aside.set()
        if self._pairing is not None:
            self._pairing.stop()

    def leave_to_parent(self) -> None:
        """In a forked child. The parent's thread may have held these locks, and the run is the parent's."""
        self._guard.leave_to_parent()
        self._lock = threading.RLock()
        self._aside = threading.Event()
        self._run = None
        self._is_beginning = False
        self.step_aside()

    def hand_over(self) -> Run | None:
        with self._lock:
            if self._is_beginning:
                return None
            self.step_aside()
            run, self._run = self._run, None
            return run

    def _pair(self) -> None:
        from trilens.sdk.frameworks.pairing import Pairing

        self._pairing = Pairing(self._guard)

    def _hook(self, module: Any) -> None:
        from trilens.sdk.frameworks.new_optimizers import NewOptimizers

        module.register_optimizer_step_pre_hook(NewOptimizers(self._guard, self._new_optimizer))

    def _new_optimizer(self, optimizer: Any) -> bool:
        """Whether it needs no second look. The run's own hooks see it step from now on."""
        if self._aside.is_set():
            return True
        if _is_told_by_framework():
            return False
        self._guard.run("attach", self._watch, optimizer)
        return True

    def _watch(self, optimizer: Any) -> None:
        from trilens.sdk.frameworks.models import models_of

        run = self.begin(_SEES)
        if run is None:
            return
        models = [model for model in models_of(optimizer) if model not in self._models]
        self._models.update(models)
        for model in models or [None]:
            # With its optimizer: looking for others would add global hooks while these are being called.
            run.watch(model, optimizer)
        if self._pairing is not None:
            self._pairing.begin(run.recorder, models)

    def begin_when_alone(self) -> None:
        """Waits in a thread of its own until it is clear that nothing else will begin a run soon."""
        since = monotonic()
        while not self._aside.wait(LOOK_S):
            if self._run is not None:
                return
            if monotonic() - since > (LOADED_S if "torch" in sys.modules else ALONE_S):
                self._guard.run("attach", self.begin, _SEES_LIFE)
                return

    def begin(self, sees: str, told: Mapping[str, Any] | None = None) -> Run | None:
        """None where the program has a run of its own."""
        from trilens.sdk.start import init, latest_run

        with self._lock:
            if self._run is None and not self._aside.is_set():
                if latest_run() is not None:
                    self.step_aside()
                    return None
                self._is_beginning = True
                try:
                    self._run = init(**(told or {}))
                finally:
                    self._is_beginning = False
            if self._run is not None and self._seen != sees:
                self._seen = sees
                self._run.recorder.note("attached", sees)
            return self._run


_attachment: Attachment | None = None


def _is_told_by_framework() -> bool:
    training = sys.modules.get("trilens.sdk.frameworks.training")
    return training is not None and training.Training.is_going_on()


def _add_to_trainer(module: Any) -> None:
    from trilens.sdk.frameworks.huggingface import TrilensCallback

    module.DEFAULT_CALLBACKS.append(TrilensCallback)


def _add_to_lightning(module: Any, guard: Guard) -> None:
    from functools import wraps

    trainer_class = module.Trainer
    make = trainer_class.__init__

    def add_callback(trainer: Any) -> None:
        from trilens.sdk.frameworks.lightning import TrilensCallback

        trainer.callbacks.insert(0, TrilensCallback())

    @wraps(make)
    def make_and_add(trainer: Any, *args: Any, **kwargs: Any) -> None:
        make(trainer, *args, **kwargs)
        guard.run("attach", add_callback, trainer)

    trainer_class.__init__ = make_and_add
