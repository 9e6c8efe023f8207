"""When an optimizer steps: its phase, its learning rate, and the end of a step of the training."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trilens.sdk.pytorch.events import is_capturing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilens.sdk.pytorch.steps import Steps
    from trilens.sdk.recorder import Recorder


class Optimizers:
    """Those that were named; or, when none was, every one that holds parameters of the model."""

    def __init__(
        self,
        recorder: Recorder,
        steps: Steps,
        named: Iterable[Any],
        parameters: Callable[[], Iterable[Any]],
        before_step: Callable[[Any], None],
        after_step: Callable[[], None],
    ) -> None:
        self._recorder = recorder
        self._steps = steps
        self._parameters = parameters
        self._before_step = before_step
        self._after_step = after_step
        self._mine: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._first: weakref.ref[Any] | None = None  # its learning rate is the run's
        self._stepping: weakref.ref[Any] | None = None
        self._has_closure = False
        self._handles: list[Any] = []
        for optimizer in named:
            self._take(innermost(optimizer))
        if not self._handles:
            self._handles = [
                register_optimizer_step_pre_hook(self._pre),
                register_optimizer_step_post_hook(self._post),
            ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def close_stale(self) -> None:
        """A step that an exception ended left its phase open. One with a closure runs the model inside."""
        if self._stepping is not None and not self._has_closure:
            self._stepping = None
            self._recorder.leave_phase("optimizer")

    def _take(self, optimizer: Any) -> None:
        if not hasattr(optimizer, "register_step_pre_hook"):
            kind = type(optimizer).__qualname__
            self._recorder.guard.lost(
                "watch", why=f"{kind} is no torch.optim.Optimizer: its steps are not seen"
            )
            return
        self._handles += [
            optimizer.register_step_pre_hook(self._pre),
            optimizer.register_step_post_hook(self._post),
        ]
        self._mine[optimizer] = True
        self._steps.close_with(optimizer)

    def _is_mine(self, optimizer: Any) -> bool:
        known = self._mine.get(optimizer)
        if known is None:
            ours = {id(parameter) for parameter in self._parameters()}
            groups = optimizer.param_groups
            known = any(id(parameter) in ours for group in groups for parameter in group["params"])
            self._mine[optimizer] = known
        return known

    def _pre(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():  # torch.compile of the step itself: nothing to see
            self._recorder.guard.run("phase", self._begin, optimizer, args, kwargs)

    def _post(self, optimizer: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            self._recorder.guard.run("phase", self._end, optimizer)

    def _begin(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._recorder.silent or not self._is_mine(optimizer):
            return
        if self._stepping is not None:  # an exception ended it, or a class that calls its parent's step
            self._recorder.leave_phase("optimizer")
        self._has_closure = len(args) > 1 or kwargs.get("closure") is not None
        self._stepping = weakref.ref(optimizer)
        self._steps.begin()
        self._before_step(optimizer)
        self._recorder.enter_phase("optimizer")

    def _end(self, optimizer: Any) -> None:
        if not _refers_to(self._stepping, optimizer):
            return
        self._stepping = None
        self._recorder.leave_phase("optimizer")
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
        if _refers_to(self._first, optimizer):
            self._tell_rate(optimizer.param_groups[0]["lr"])
        self._steps.after(optimizer)
        self._after_step()

    def _tell_rate(self, rate: Any) -> None:
        if isinstance(rate, torch.Tensor) and rate.is_cuda and is_capturing(rate.device.index):
            return  # the copy would become a part of the graph
        self._recorder.keep({"lr": rate})


def _refers_to(known: weakref.ref[Any] | None, optimizer: Any) -> bool:
    return known is not None and known() is optimizer


def innermost(optimizer: Any) -> Any:
    """The one whose step runs in the end: Accelerate, Lightning and DeepSpeed put theirs around it."""
    for _ in range(8):
        inner = getattr(optimizer, "optimizer", None)
        if inner is None or not hasattr(inner, "param_groups"):
            break
        optimizer = inner
    return optimizer
