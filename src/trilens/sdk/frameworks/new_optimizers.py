"""Tells when an optimizer steps for the first time, in a program that does not tell its optimizers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class NewOptimizers:
    """A hook that PyTorch calls before each step of every optimizer. `call` says whether one is settled."""

    def __init__(self, call: Callable[[Any], bool]) -> None:
        self._call = call
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __call__(self, optimizer: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or optimizer in self._known:
            return
        if self._call(optimizer):
            self._known.add(optimizer)
