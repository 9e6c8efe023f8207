"""What a model computes for a token, and what its GPU could: for the model's FLOP utilisation (MFU)."""

from __future__ import annotations

from typing import Any

import torch

from trilens.model.peak_flops import peak_flops
from trilens.sdk.pytorch import parallel


def flops_per_token(model: Any, given: str | float) -> float:
    """As given; "6N" is each parameter twice in forward and four times in backward, without attention."""
    if given != "6N":
        return float(given)
    parameters = list(parallel.unwrapped(model).parameters())
    if any(type(parameter).__name__ == "FlatParameter" for parameter in parameters):
        raise ValueError(
            "a rank of FSDP 1 does not know the size of the model: give the number instead of 6N"
        )
    return 6.0 * sum(int(parameter.numel()) for parameter in parameters)


def peak_of(parameter: Any) -> float | None:
    """Of the GPU that it is on, for what the model computes in now."""
    product = torch.cuda.get_device_properties(parameter.device).name
    return peak_flops(product, _computes_in(parameter.dtype))


def _computes_in(dtype: Any) -> str:
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
    if dtype == torch.float32:
        return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "fp32"
    return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype, str(dtype))
