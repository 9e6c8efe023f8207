"""Finds the backward pass behind a model's outputs, and the gradient synchronisation at its end."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.sdk.recorder import Recorder

_MOST_OUTPUTS: Final = 4  # marked: a loss and logits; of a hundred hidden states the first few will do
_DEPTH: Final = 3
_MOST_PARTS: Final = 64  # of a list or the like: one of a hundred thousand words is not looked through


class Backward:
    """A hook on an output runs when its gradient is there, which is where backward reaches the model. The
    hooks return None: the gradient stays as it is. They run in a thread of autograd, while the program's
    own waits."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._task: int | None = None  # which backward this is, as autograd counts them
        self._open: str | None = None

    def expect(self, output: Any, *, synchronises: bool) -> None:
        hook = self._begin_synchronised if synchronises else self._begin_alone
        for tensor in _with_gradient(output):
            _register_first(tensor, hook)

    def close_stale(self) -> None:
        """Called outside of any backward: one that an exception ended has left its phase open."""
        if self._open is not None:
            self._leave(self._open)

    def _begin_alone(self, _gradient: Any) -> None:
        self._begin(self._end_alone)

    def _begin_synchronised(self, _gradient: Any) -> None:
        self._begin(self._end_synchronised)

    def _begin(self, at_end: Callable[[], None]) -> None:
        if torch.compiler.is_compiling():  # compiled autograd makes one graph of it all: nothing to see
            return
        self._recorder.guard.run("phase", self._begin_once, at_end)

    def _begin_once(self, at_end: Callable[[], None]) -> None:
        task = torch._C._current_graph_task_id()
        if task == self._task or self._recorder.silent:
            return  # another output of the same backward
        self._task = task
        self.close_stale()
        _at_end_of_backward(at_end)
        self._enter("backward")

    def _end_alone(self) -> None:
        self._recorder.guard.run("phase", self._leave, "backward")

    def _end_synchronised(self) -> None:
        self._end_alone()
        self._recorder.guard.run("phase", self._begin_waiting)

    def _begin_waiting(self) -> None:
        _at_end_of_backward(self._end_waiting)
        self._enter("grad_sync")

    def _end_waiting(self) -> None:
        self._recorder.guard.run("phase", self._leave, "grad_sync")

    def _enter(self, phase: str) -> None:
        self._open = phase
        self._recorder.enter_phase(phase)

    def _leave(self, phase: str) -> None:
        self._open = None
        self._recorder.leave_phase(phase)


def _register_first(tensor: Any, hook: Callable[[Any], None]) -> None:
    """Before those that are there already: FSDP queues its callback from one, ours must be queued before."""
    others = dict(tensor._backward_hooks or ())
    tensor.register_hook(hook)
    if others:
        hooks = tensor._backward_hooks
        for key in others:
            del hooks[key]
        hooks.update(others)


def _at_end_of_backward(call: Callable[[], None]) -> None:
    """In the order in which they were queued, after the last gradient; as DDP and FSDP do it."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


def _with_gradient(output: Any) -> list[Any]:
    found: list[Any] = []
    for tensor in _tensors(output, _DEPTH):
        if tensor.requires_grad:
            found.append(tensor)
            if len(found) == _MOST_OUTPUTS:
                break
    return found


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth:
        for part in islice(_parts(value), _MOST_PARTS):
            yield from _tensors(part, depth - 1)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value
    elif is_dataclass(value):
        yield from (getattr(value, field.name, None) for field in fields(value))
