"""The GPUs of this process: which they are, what their memory holds. Neither waits for nor sets up any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from trilens.sdk.pytorch.events import DeviceClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.sdk.recorder import Recorder

_SEARCH_EVERY: Final = 30  # looks: a process that sees eight GPUs mostly uses one

_GAUGES: Final = (
    (
        "training_cuda_allocated_bytes",
        "Memory in tensors, as PyTorch's allocator counts.",
        "allocated_bytes",
        "current",
    ),
    (
        "training_cuda_allocated_peak_bytes",
        "The most of it, since the start or the program's reset.",
        "allocated_bytes",
        "peak",
    ),
    (
        "training_cuda_reserved_bytes",
        "Memory that the allocator has taken from the GPU.",
        "reserved_bytes",
        "current",
    ),
)
_COUNTERS: Final = (
    (
        "training_cuda_alloc_retries_total",
        "Allocations that had to give cached memory back first.",
        "num_alloc_retries",
    ),
    ("training_cuda_ooms_total", "Allocations that failed for want of memory.", "num_ooms"),
)


def note_devices(recorder: Recorder, device: int) -> None:
    """The one that the training runs on is known: its phases are timed."""
    if recorder.device_clock is None:
        recorder.device_clock = DeviceClock(recorder, device)


class CudaMemory:
    """Looked at once a second, in the background: figures that the allocator has at hand."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._looks = 0
        self._used: dict[int, dict[str, str]] = {}  # with the labels of each

    def look(self) -> None:
        if not self._used or self._looks % _SEARCH_EVERY == 0:
            self._search()
        self._looks += 1
        for device, labels in self._used.items():
            self._show(torch.cuda.memory_stats_as_nested_dict(device), labels)

    def _search(self) -> None:
        """Those in whose memory this process has something. Others are visible to it, and not its own."""
        for device in range(torch.cuda.device_count()):
            figures = torch.cuda.memory_stats_as_nested_dict(device)
            if device not in self._used and _number(figures, "reserved_bytes", "peak"):
                uuid = _uuid(device, self._recorder.options.environ)
                self._used[device] = {"device": str(device)} | ({} if uuid is None else {"UUID": uuid})
        self._recorder.gpus = tuple(labels["UUID"] for labels in self._used.values() if "UUID" in labels)
        if len(self._used) == 1:  # of several, only the program knows which one it trains on
            note_devices(self._recorder, next(iter(self._used)))

    def _show(self, figures: Mapping[str, Any], labels: dict[str, str]) -> None:
        for name, explained, figure, which in _GAUGES:
            self._recorder.gauge(name, explained, _number(figures, figure, which), labels)
        for name, explained, figure in _COUNTERS:
            self._recorder.metrics.counter_at(name, explained, figures.get(figure, 0), labels)


def _number(figures: Mapping[str, Any], figure: str, which: str) -> int:
    return int(figures.get(figure, {}).get("all", {}).get(which, 0))


def _uuid(device: int, environ: Mapping[str, str]) -> str | None:
    """As nvidia-smi and DCGM write it."""
    properties = torch.cuda.get_device_properties(device)
    if "MIG" in properties.name:  # the property is its GPU's; the part is known by how it was handed out
        visible = environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        return visible[device] if device < len(visible) and visible[device].startswith("MIG-") else None
    uuid = getattr(properties, "uuid", None)  # since torch 2.4; AMD's is something else
    return None if uuid is None or torch.version.hip else f"GPU-{uuid}"
