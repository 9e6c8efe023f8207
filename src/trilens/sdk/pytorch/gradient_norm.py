"""The norm of all gradients, on the device, for a program that does not compute it itself."""

from __future__ import annotations

from typing import Any

import torch

from trilens.sdk.pytorch.events import is_capturing


def gradient_norm(optimizer: Any) -> Any | None:
    """As a tensor that is not read here. None where it would need other ranks, or would not be true."""
    if getattr(optimizer, "grad_scale", None) is not None:
        return None  # a GradScaler has not taken its factor out yet
    gradients = [
        parameter.grad
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.grad is not None
    ]
    if not gradients or any(not _is_whole(gradient) for gradient in gradients):
        return None
    devices = {gradient.device for gradient in gradients}
    if len(devices) > 1 or (gradients[0].is_cuda and is_capturing(gradients[0].device.index)):
        return None
    with torch.no_grad():
        norms = torch._foreach_norm(gradients, 2, dtype=torch.float32)
        return torch.linalg.vector_norm(torch.stack(norms))


def _is_whole(gradient: Any) -> bool:
    return gradient.layout == torch.strided and not hasattr(gradient, "to_local")
