"""Hooks that stay with the module they are on: a copy of it, or one loaded from a file, is not watched."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class _Uncopied:
    """A module's hooks go along when it is copied or saved whole. Ours become something that does nothing,
    made of the standard library alone, so that the file loads where Trilens is not installed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class BeforeForward(_Uncopied):
    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def __call__(self, module: Any, _args: tuple[Any, ...]) -> None:
        if not torch.compiler.is_compiling():  # being traced: leaves nothing in the graph
            self._call(module)


class AfterForward(_Uncopied):
    def __init__(self, call: Callable[[Any, Any], None]) -> None:
        self._call = call

    def __call__(self, module: Any, _args: tuple[Any, ...], output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._call(module, output)
