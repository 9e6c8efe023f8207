"""A training whose loop belongs to a framework: its steps and batches, as callbacks tell them."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from trilens.sdk.data import SampleBatch
from trilens.sdk.data.loader_tap import LoaderTap
from trilens.sdk.start import init, latest_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.sdk.data.loader_tap import Deliveries, Delivery
    from trilens.sdk.run import Run

_watched: weakref.WeakKeyDictionary[Any, Run] = weakref.WeakKeyDictionary()


class Training:
    """`owner` is what the framework trains with: one training of it is told once, however many callbacks it
    has. `is_trained_on` is asked of every DataLoader when somebody begins to iterate over it."""

    _going_on: Training | None = None

    def __init__(self, run: Run, owner: object, is_trained_on: Callable[[Any], bool]) -> None:
        if Training._going_on is not None:  # an exception that the program caught has ended it
            Training._going_on.end()
        Training._going_on = self
        self.run = run
        self.recorder = run.recorder
        self._owner = owner
        self._is_trained_on = is_trained_on
        self._deliveries: Deliveries | None = None
        self._doubt: str | None = None
        self._epoch: int | None = None
        self._tap = LoaderTap(self.recorder.guard, self._new_iterator, self._delivered)
        self._tap.open()

    @staticmethod
    def is_going_on() -> bool:
        return Training._going_on is not None

    @staticmethod
    def is_told(owner: object) -> bool:
        """By another callback: `trilens run` adds one, and the program may have one of its own."""
        return Training._going_on is not None and Training._going_on._owner is owner

    def end(self) -> None:
        self.recorder.abort_step(None)
        self._tap.close()
        if Training._going_on is self:
            Training._going_on = None

    def watch(self, model: Any, optimizer: Any) -> None:
        """A second training of a model has another optimizer, but needs no second look at the model."""
        is_new = _watched.get(model) is not self.run
        self.run.watch(model if is_new else None, optimizer)
        _watched[model] = self.run

    def doubt_samples(self, why: str) -> None:
        """Which samples a rank sees cannot be told in this training."""
        self._doubt = why

    def begin_step(self, number: int, epoch: int | None) -> None:
        self.recorder.begin_step(number)
        self.recorder.set_epoch(epoch)
        self._epoch = epoch

    def use_batch(self) -> None:
        """The step in progress sees the oldest batch that has not been used: frameworks keep their order."""
        deliveries = self._deliveries
        if deliveries is None or not deliveries.pending:
            why = self._doubt or "how the program reads its batches was not seen"
            if deliveries is not None:
                deliveries.doubted(why)
            self.recorder.add_batch(SampleBatch(None, epoch=self._epoch, unknown=why))
            return
        delivery = deliveries.pending.popleft()
        self.recorder.add_samples(delivery.samples, delivery.tokens)
        self.recorder.add_batch(delivery.told(self._doubt or deliveries.doubt, self._epoch))

    def _new_iterator(self, deliveries: Deliveries) -> None:
        if self._is_trained_on(deliveries.loader):
            self._deliveries = deliveries

    def _delivered(self, deliveries: Deliveries, delivery: Delivery) -> None:
        if deliveries is self._deliveries:
            self.recorder.add_phase("data", delivery.wait_ns)


def run_for_training(
    given: Run | None,
    *,
    experiment: str | None,
    name: str | None,
    tags: Mapping[str, str] | None,
    config: Mapping[str, object],
    total_steps: int | None,
) -> Run:
    """The run that was given, else the one that is there, else a new one."""
    told: dict[str, Any] = {
        "experiment": experiment,
        "name": name,
        "tags": tags,
        "config": config,
        "total_steps": total_steps,
    }
    attach = sys.modules.get("trilens.sdk.attach")
    run = given or (attach and attach.begin_for_trainer(told)) or latest_run()
    if run is None:
        return init(**told)
    run.describe(**told)
    return run
