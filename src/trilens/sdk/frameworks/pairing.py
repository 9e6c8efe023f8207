"""Which batch a forward of the model sees, in a program that tells neither.

A batch belongs to the forward that follows it, if it is the only one that its loader has handed over since
the last forward. A loader whose program reads further ahead is not guessed at: its samples are unknown from
then on. What is read for an evaluation is known by the model's forward, which computes no gradients.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.data.loader_tap import LoaderTap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.sdk.data.loader_tap import Deliveries
    from trilens.sdk.guard import Guard
    from trilens.sdk.recorder import Recorder

_AHEAD: Final = "the program reads batches ahead of the step that uses them"


class Pairing:
    def __init__(self, guard: Guard) -> None:
        self._recorder: Recorder | None = None
        self._loaders: weakref.WeakSet[Deliveries] = weakref.WeakSet()
        self._handles: list[Any] = []
        self._tap = LoaderTap(guard, on_new=self._loaders.add)
        self._tap.open()

    def begin(self, recorder: Recorder, models: Iterable[Any]) -> None:
        """In the first step of an optimizer, whose forward is over: it was not seen which batch it had."""
        # Not before: this module is loaded while PyTorch still is.
        from trilens.sdk.pytorch.hooks import BeforeForward

        self._recorder = recorder
        for deliveries in self._loaders:
            if len(deliveries.pending) > 1:
                deliveries.doubted(_AHEAD)
            deliveries.pending.clear()
        for model in models:
            hook = BeforeForward(self._before_forward)
            self._handles.append(model.register_forward_pre_hook(hook, prepend=True))

    def stop(self) -> None:
        self._tap.close()
        while self._handles:
            self._handles.pop().remove()

    def _before_forward(self, module: Any) -> None:
        recorder = self._recorder
        if recorder is not None:
            recorder.guard.run("batch", self._pair, recorder, module)

    def _pair(self, recorder: Recorder, module: Any) -> None:
        from torch import is_grad_enabled

        for deliveries in self._loaders:
            if module.training and is_grad_enabled():
                self._use(recorder, deliveries)
            deliveries.pending.clear()

    def _use(self, recorder: Recorder, deliveries: Deliveries) -> None:
        if len(deliveries.pending) > 1:
            deliveries.doubted(_AHEAD)
        if not deliveries.pending:
            return
        delivery = deliveries.pending[-1]
        recorder.add_phase("data", delivery.wait_ns)
        recorder.add_batch(delivery.told(deliveries.doubt, epoch=None))
        if deliveries.doubt is None:
            recorder.add_samples(delivery.samples, delivery.tokens)
