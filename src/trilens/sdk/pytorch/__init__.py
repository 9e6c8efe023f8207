"""PyTorch: phases and steps by hooks, device times by events, tensors read later. Imported where torch is."""

from trilens.sdk.pytorch.watching import watch

__all__ = ["watch"]
