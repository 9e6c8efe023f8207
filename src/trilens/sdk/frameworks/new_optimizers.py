"""Tells when an optimizer steps for the first time, in a program that does not tell its optimizers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.sdk.guard import Guard


class NewOptimizers:
    """A hook that PyTorch calls before each step of every optimizer. `call` says whether one is settled."""

    def __init__(self, guard: Guard, call: Callable[[Any], bool]) -> None:
        self._guard = guard
        self._call = call
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __call__(self, optimizer: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            self._guard.run("attach", self._look_at, optimizer)

    def _look_at(self, optimizer: Any) -> None:
        if optimizer not in self._known and self._call(optimizer):
            self._known.add(optimizer)
