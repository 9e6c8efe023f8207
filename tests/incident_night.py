"""A night in which a GPU falls off the bus, as incidents are made of it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from scenes import START_MS, Story
from trilens.alert.incidents.incidents import Incidents
from trilens.detect.gpu_fault import GpuFault
from trilens.detect.stall import Stall
from trilens.detect.watch import Watch
from trilens.ledger.prices.book import price_book
from trilens.model.alert import Alert, AlertState
from trilens.model.event import EventKind, EventRecord
from trilens.model.labels import make_labels
from trilens.model.machine import Machine, MachineInterval
from trilens.serve.incidents.keeper import IncidentKeeper
from trilens.serve.incidents.workload_costs import WorkloadCosts

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.ledger.prices.book import Prices
    from trilens.model.incident import Incident
    from trilens.store.store import Store

XID = EventRecord(
    "node-0",
    "line-1",
    START_MS + 300_000,
    EventKind.XID,
    79,
    "GPU has fallen off the bus",
    "off the bus",
    "node-out",
    "GPU-train-2",
    2,
    *[None] * 4,
)


class Machines:
    def unfinished(self) -> list[MachineInterval]:
        return [MachineInterval(Machine("c1", "node-0", gpu_model="H100", gpus=8), 0, None)]


def made_up_prices(folder: Path) -> Prices:
    file = folder / "prices.yaml"
    file.write_text(
        "currency: EUR\nprices: [{name: mine, match: {gpu_model: H100}, per_gpu_hour: 9}]\n", "utf-8"
    )
    return price_book(file)


class Night:
    """A job of four ranks; GPU 2 falls off the bus at 300 s, and no step ends from then on."""

    def __init__(self, store: Store, prices: Prices) -> None:
        self.store, self.prices = store, prices
        self.story = Story(ranks=4, name="train", seconds=900)
        self.story.stop(at_s=300)
        self.story.events.append(XID)
        self.watch = Watch([Stall(), GpuFault()])
        self.now_ms = START_MS
        self.heard: list[Incident] = []
        self.numbers = count(1)
        self.keeper = self.new_keeper()

    def new_keeper(self) -> IncidentKeeper:
        costs = WorkloadCosts(lambda: self.prices, Machines(), lambda: ())
        incidents = Incidents(costs, make_id=lambda _: f"i{next(self.numbers)}")
        keeper = IncidentKeeper(incidents, self.store.incidents, costs, clock_ms=lambda: self.now_ms)
        keeper.listen(self.heard.extend)
        return keeper

    def pass_by(self, from_s: int, to_s: int) -> None:
        for at_s in range(from_s, to_s + 1, 5):
            self.now_ms = START_MS + at_s * 1000
            scene = self.story.scene(at_s)
            self.keeper.take_look(scene, self.watch.look(scene))
            self.keeper.work()

    def fire(self, at_s: int, workload: str = "train") -> None:
        labels = {"alertname": "TrainingSlow", "namespace": "ml", "workload": workload, "severity": "warning"}
        at_ms = START_MS + at_s * 1000
        notes = make_labels({"summary": "fewer samples", "action": "Look."})
        until_ms = at_ms + 240_000
        fired = Alert(
            make_labels(labels), notes, AlertState.FIRING, 1.0, at_ms, at_ms, None, None, at_ms, until_ms
        )
        self.keeper.take_alerts([fired])
