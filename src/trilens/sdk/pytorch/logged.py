"""Tensors that a program logs: taken as they are now, read when the device has computed them.

A tensor in the program's own memory is read at once, which costs no wait. One on a CUDA device is copied
into pinned memory behind the work that computes it; the program goes on, and a later step reads the copy.
What the program does to the tensor afterwards does not change what was logged, and the graph behind it is
not kept.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import torch

from trilens.sdk.guard import describe
from trilens.sdk.pytorch.events import event_pool, is_capturing
from trilens.sdk.step_note import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.sdk.guard import Guard
    from trilens.sdk.step_note import Later

_SLOTS: Final = 512  # of each device and data type: values that wait for the device

_slots: dict[tuple[int, Any], deque[Any]] = {}


def take_tensors(tensors: Mapping[str, Any], guard: Guard) -> tuple[dict[str, float], list[Later]]:
    """The values that are known now, and those that will be."""
    numbers: dict[str, float] = {}
    on_device: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        try:
            number = _one_number(name, tensor)
            where = number.device
            if where.type == "cuda":
                on_device.setdefault(where.index, {})[name] = number
            elif where.type == "cpu":
                numbers[name] = _value(number)
            else:
                raise ValueError(f"{name} is on {where}, which cannot be read without waiting")
        except Exception as error:  # noqa: BLE001 - as the guard does
            guard.lost("value", why=describe(error))
    laters: list[Later] = []
    for device, named in on_device.items():
        try:
            laters.append(_copy(device, named))
        except Exception as error:  # noqa: BLE001 - as the guard does, but all values of the call are lost
            guard.lost("value", len(named), why=describe(error))
    return numbers, laters


def _one_number(name: str, tensor: Any) -> Any:
    """The tensor without its graph, with one element."""
    if type(tensor) is not torch.Tensor and hasattr(
        tensor, "to_local"
    ):  # a DTensor: what this rank has of it
        if not all(placement.is_replicate() for placement in tensor.placements):
            raise ValueError(f"{name} lies in parts on several ranks: log {name}.full_tensor()")
        tensor = tensor.to_local()
    if tensor.numel() != 1:
        raise ValueError(f"{name} is a tensor of shape {tuple(tensor.shape)}, not a number")
    if tensor.is_complex():
        raise ValueError(f"{name} is complex")
    number = tensor.detach()
    return number if number.dim() < 2 else number.reshape(1)


def _value(number: Any) -> float:
    """Of one in the program's memory, straight from there: `item` would look like a wait in a profile."""
    told = number.tolist()
    return float(told[0] if number.dim() else told)


def _copy(device: int, named: Mapping[str, Any]) -> Copied:
    if is_capturing(device):
        raise RuntimeError("a tensor cannot be logged while a CUDA graph is being captured")
    copied = Copied(device)
    for name, tensor in named.items():
        copied.take(name, tensor)
    copied.mark()
    return copied


class Copied:
    """Values on their way from the device. A `Later`."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._events = event_pool(device, timing=False)
        self._recorded: Any = None
        self._named: list[tuple[str, Any, deque[Any]]] = []

    def take(self, name: str, tensor: Any) -> None:
        free = _free_slots(self._device, tensor.dtype)
        if not free:
            raise RuntimeError(f"more than {_SLOTS} values wait for the device")
        slot = free.popleft()
        self._named.append((name, slot, free))
        slot.copy_(tensor, non_blocking=True)

    def mark(self) -> None:
        """One event behind all copies."""
        self._recorded = self._events.record(torch.cuda.current_stream(self._device))

    def ready(self) -> bool:
        if self._recorded is not None and not is_capturing(self._device):  # asking would end the capture
            if not self._recorded.query():
                return False
            self._events.give_back((self._recorded,))
            self._recorded = None
        return self._recorded is None

    def read(self) -> Reading:
        reading = Reading({name: _value(slot) for name, slot, _ in self._named})
        self._give_back()
        return reading

    def __del__(self) -> None:
        self._give_back()  # never read, of a step that failed

    def _give_back(self) -> None:
        for _, slot, free in self._named:
            free.append(slot)
        self._named.clear()
        if self._recorded is not None:
            self._events.give_back((self._recorded,))
            self._recorded = None


def _free_slots(device: int, dtype: Any) -> deque[Any]:
    """Of one data type each, so that nothing is converted on the device; and of one device, so that a copy
    that nobody read arrives before the next one to the same place."""
    free = _slots.get((device, dtype))
    if free is None:
        with torch.inference_mode(mode=False):  # made inside, they could not be written to outside
            pinned = torch.empty(_SLOTS, dtype=dtype, device="cpu", pin_memory=True)
            free = _slots[device, dtype] = deque(pinned[i : i + 1] for i in range(_SLOTS))
    return free
