"""A simulated cluster, followed for hours of its own time by the parts that a server has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.ledger import HOUR_MS
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import StoredReports
from trilens.serve.rehearsal.events import KernelEvents
from trilens.serve.rehearsal.objects import FollowedObjects
from trilens.serve.rehearsal.ranks import TellingRanks
from trilens.serve.rehearsal.rules import RecordedRules
from trilens.serve.rehearsal.telemetry import ScrapedTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.simulate.world import World
    from trilens.store.store import Store

_LOOK_MS: Final = 30_000
_SCRAPE_MS: Final = 120_000  # what was last said holds for longer than that
_TELL_MS: Final = 900_000  # ranks tell what they did since: where nobody watches, sooner is of no use


def follow(world: World, store: Store, cluster: str, to_ms: int, hours_passed: Callable[[int], None]) -> None:
    """Everything that happens until then is in the store when this returns. `hours_passed` is told each
    hour."""
    objects = FollowedObjects(world, store, cluster)
    telemetry = ScrapedTelemetry(world, store, cluster)
    events = KernelEvents(world, store)
    ranks = TellingRanks(world, store.runs, _TELL_MS / 1000)
    rules = RecordedRules(store)
    gpus = GpuBindings(store.gpus, StoredReports(store), objects, machines=store.machines)
    start_ms = recorded_ms = world.now_ms
    objects.look()
    gpus.look(start_ms)  # the machines are paid from the beginning on
    try:
        while world.now_ms < to_ms:
            world.advance(min(to_ms, world.now_ms + _LOOK_MS))
            passed_ms = world.now_ms - start_ms
            objects.look()
            events.look()
            if passed_ms % _SCRAPE_MS == 0:
                telemetry.look()
            gpus.look(world.now_ms)
            if passed_ms % _TELL_MS == 0 or world.now_ms == to_ms:
                ranks.look()
                rules.record(recorded_ms, world.now_ms)
                recorded_ms = world.now_ms
            if passed_ms % HOUR_MS == 0:
                hours_passed(1)
    finally:
        ranks.stop()
    telemetry.stop()
    rules.stop(world.now_ms + 1)
