"""Finding the models that an optimizer trains, in a program that does not tell them."""

from __future__ import annotations

import gc
from typing import Any


def models_of(optimizer: Any) -> list[Any]:
    """The outermost modules with parameters of the optimizer: of a model inside DDP, the DDP.

    Looks through all objects of the program, which takes a fraction of a second: once for an optimizer.
    """
    from torch.nn import Module

    trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    # The type is asked, not isinstance: an object may compute its __class__, and that is the program's code.
    modules = [found for found in gc.get_objects() if issubclass(type(found), Module)]
    inner = {id(child) for module in modules for child in vars(module).get("_modules", {}).values()}
    return [
        module
        for module in modules
        if id(module) not in inner and any(id(parameter) in trained for parameter in module.parameters())
    ]
