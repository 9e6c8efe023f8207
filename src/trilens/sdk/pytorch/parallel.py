"""How a model's gradients come together over ranks, and where that can be seen.

DDP and FSDP wait for their communication in a callback at the end of backward. A callback of ours that is
queued before theirs runs when the last gradient has been computed; one that is queued from it runs after
they waited. What lies between the two is the synchronisation that was not hidden behind computing. Their
communication hooks, and a user's own, are not touched.
"""

from __future__ import annotations

import sys
from typing import Any


def unwrapped(module: Any) -> Any:
    """The module inside what torch.compile returned."""
    return getattr(module, "_orig_mod", module)


def synchronises(module: Any) -> bool:
    """Whether its gradients are brought together by DDP or FSDP, in it, around it or in parts of it."""
    return _is_inside_ddp() or any(
        _is_ddp(part) or _is_fsdp1(part) or _is_fsdp2(part) for part in unwrapped(module).modules()
    )


def synchronises_now(module: Any) -> bool:
    """Not in the forward of a DDP under no_sync()."""
    return bool(getattr(unwrapped(module), "require_backward_grad_sync", True))


def is_sharded(module: Any) -> bool:
    """Whether a rank holds only a part of its gradients."""
    return any(_is_fsdp1(part) or _is_fsdp2(part) for part in unwrapped(module).modules())


def _class(module_name: str, name: str) -> Any:
    """A class of a module that the program has loaded: it has none of its instances otherwise."""
    return getattr(sys.modules.get(module_name), name, None)


def _is_ddp(module: Any) -> bool:
    ddp = _class("torch.nn.parallel.distributed", "DistributedDataParallel")
    return ddp is not None and isinstance(module, ddp)


def _is_inside_ddp() -> bool:
    """In the forward of a model that was watched before DDP was put around it."""
    ddp = _class("torch.nn.parallel.distributed", "DistributedDataParallel")
    return getattr(ddp, "_active_ddp_module", None) is not None


def _is_fsdp1(module: Any) -> bool:
    fsdp = _class("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel")
    return fsdp is not None and isinstance(module, fsdp)


def _is_fsdp2(module: Any) -> bool:
    return hasattr(type(module), "set_requires_gradient_sync")  # fully_shard gave it another class
