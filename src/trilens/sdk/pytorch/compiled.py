"""Around a module that was compiled in place, so that neither a graph break nor a recompile is added.

`module.compile()` compiles the call with the module's hooks in it. What we do must not be traced: our hooks
return at once there, and the compiled call is wrapped instead, outside of what was compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_ATTRIBUTE = (
    "_compiled_call_impl"  # where nn.Module keeps the compiled call; not part of its state when saved
)


class WatchedCall:
    def __init__(self, module: Any, before: Callable[[Any], None], after: Callable[[Any, Any], None]) -> None:
        self._module = module
        self._before = before
        self._after = after
        self.compiled = vars(module)[_ATTRIBUTE]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # inside something larger that is being compiled
            return self.compiled(*args, **kwargs)
        self._before(self._module)
        output = None
        try:
            output = self.compiled(*args, **kwargs)
        finally:
            self._after(self._module, output)
        return output


def wrap_if_compiled(module: Any, before: Callable[[Any], None], after: Callable[[Any, Any], None]) -> None:
    """Nothing where it is not compiled in place, or wrapped already."""
    compiled = vars(module).get(_ATTRIBUTE)
    if compiled is not None and not isinstance(compiled, WatchedCall):
        setattr(module, _ATTRIBUTE, WatchedCall(module, before, after))


def unwrap(module: Any) -> None:
    watched = vars(module).get(_ATTRIBUTE)
    if isinstance(watched, WatchedCall):
        setattr(module, _ATTRIBUTE, watched.compiled)
