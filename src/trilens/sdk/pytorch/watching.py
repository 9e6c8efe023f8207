"""`run.watch(model, optimizer)`: forward, backward, gradient synchronisation and optimizer, found by hooks.

Only the model's outermost call is hooked, so that the cost does not grow with the model. A forward that
computes no gradients is no training, and one inside backward is a recomputation: it stays backward's time.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from trilens.sdk.pytorch import compiled, parallel
from trilens.sdk.pytorch.backward import Backward
from trilens.sdk.pytorch.cuda import note_devices
from trilens.sdk.pytorch.flops import flops_per_token, peak_of
from trilens.sdk.pytorch.gradient_norm import gradient_norm
from trilens.sdk.pytorch.hooks import AfterForward, BeforeForward
from trilens.sdk.pytorch.optimizers import Optimizers
from trilens.sdk.pytorch.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.sdk.recorder import Recorder


def watch(
    recorder: Recorder,
    model: Any,
    optimizer: Any = None,
    *,
    grad_norm_every: int = 0,
    flops: str | float | None = None,
) -> None:
    """`flops`: of one token (forward and backward), or "6N". Watched until the run is finished."""
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"watch takes a torch.nn.Module, not {type(model).__qualname__}")
    named = optimizer if isinstance(optimizer, (list, tuple)) else (optimizer,)
    watching = Watching(recorder, model, [one for one in named if one is not None], grad_norm_every)
    recorder.at_finish(watching.stop)
    if flops is not None:
        recorder.flops_per_token = flops_per_token(model, flops)


class Watching:
    """Of one model; without a model, of optimizers alone. The model is not kept alive by it."""

    def __init__(
        self, recorder: Recorder, model: Any, optimizers: Iterable[Any], grad_norm_every: int = 0
    ) -> None:
        self._recorder = recorder
        self._model = (lambda: None) if model is None else weakref.ref(model)
        self._grad_norm_every = grad_norm_every
        self._steps = steps_of(recorder)
        self._backward = Backward(recorder)
        self._is_forward = False
        self._seen: Any = None  # the model's class when it was last looked at: fully_shard changes it
        self._synchronises = False
        self._handles: list[Any] = []
        self._optimizers = Optimizers(
            recorder, self._steps, optimizers, self._parameters, self._before_step, self._after_step
        )
        if model is not None:
            self._hook(model)

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._optimizers.remove()
        model = self._model()
        if model is not None:
            compiled.unwrap(model)

    def _hook(self, model: Any) -> None:
        # Around the hooks that are there, such as FSDP's; and after an exception too.
        before, after = BeforeForward(self._before_forward), AfterForward(self._after_forward)
        self._handles += [
            model.register_forward_pre_hook(before, prepend=True),
            model.register_forward_hook(after, always_call=True),
        ]
        compiled.wrap_if_compiled(model, self._before_forward, self._after_forward)

    def _parameters(self) -> Iterable[Any]:
        model = self._model()
        return () if model is None else model.parameters()

    # What runs in the program: nothing of it may raise.

    def _before_forward(self, module: Any) -> None:
        self._recorder.guard.run("phase", self._begin_forward, module)

    def _after_forward(self, module: Any, output: Any) -> None:
        self._recorder.guard.run("phase", self._end_forward, module, output)

    def _begin_forward(self, module: Any) -> None:
        recorder = self._recorder
        if self._is_forward:  # an interrupt left it open
            self._is_forward = False
            recorder.leave_phase("forward")
        if recorder.silent or torch._C._current_graph_task_id() != -1:
            return
        if not torch.is_grad_enabled():
            if not recorder.in_step:  # a validation: the last steps' values need not wait for its end
                recorder.settle_here()
            return
        if "_is_replica" in vars(module):  # nn.DataParallel: in a thread of its own
            return
        self._backward.close_stale()
        self._optimizers.close_stale()
        if self._seen is not type(module):
            self._look_at(module)
        self._steps.begin()
        self._is_forward = True
        recorder.enter_phase("forward")

    def _end_forward(self, module: Any, output: Any) -> None:
        if not self._is_forward:
            return
        self._is_forward = False
        self._recorder.leave_phase("forward")
        now = self._synchronises and parallel.synchronises_now(module)
        self._backward.expect(output, synchronises=now)

    def _look_at(self, module: Any) -> None:
        self._seen = type(module)
        self._synchronises = parallel.synchronises(module)
        parameter = next(iter(module.parameters()), None)
        if parameter is not None and parameter.device.type == "cuda":
            note_devices(self._recorder, parameter.device.index)
            self._recorder.peak_flops_per_second = peak_of(parameter)

    def _before_step(self, optimizer: Any) -> None:
        self._backward.close_stale()
        every = self._grad_norm_every
        if every <= 0 or self._recorder.steps_done % every:
            return
        model = self._model()
        if model is None or not parallel.is_sharded(model):
            norm = gradient_norm(optimizer)
            if norm is not None:
                self._recorder.log({"grad_norm": norm})

    def _after_step(self) -> None:
        model = self._model()
        if model is None:
            return
        compiled.wrap_if_compiled(model, self._before_forward, self._after_forward)
        if self._seen is None:
            self._recorder.guard.say(
                "forward",
                f"no forward of {type(model).__qualname__} was seen: watch what torch.compile() returned",
            )
