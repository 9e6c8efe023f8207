"""The life of a simulated cluster before its server began, as the store then has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.rehearsal.past import keep_past
from trilens.serve.storage import open_store
from trilens.settings.storage import StorageSettings
from trilens.simulate.scenario import load_scenario

if TYPE_CHECKING:
    from pathlib import Path

BORN_MS = 1_768_392_000_000
UNTIL_MS = BORN_MS + 10 * 60_000 + 7_000  # a moment, not a whole number of scrapes


def test_a_server_finds_machines_and_holders_and_scrapes_for_itself(tmp_path: Path) -> None:
    storage = StorageSettings.model_validate({"data_dir": tmp_path / "data"})
    keep_past(load_scenario("demo").sized(16), 0, BORN_MS, UNTIL_MS, storage, "demo")
    store = open_store(storage, upkeep=False)
    try:
        machines = store.machines.unfinished()
        assert {(one.machine.cluster, one.from_ms) for one in machines} == {("demo", BORN_MS)}
        held = store.gpus.unfinished()
        assert held
        assert all(BORN_MS <= one.from_ms < UNTIL_MS for one in held)
        engine = Engine(store)
        for metric in ("DCGM_FI_DEV_GPU_UTIL", "trilens:inference_server:info"):
            assert len(engine.instant(metric, UNTIL_MS, QueryGuard()).labels), metric
            over = engine.instant(metric, UNTIL_MS + 1_000, QueryGuard())
            assert len(over.labels) == 0, f"{metric}: two would tell the same beside each other"
    finally:
        store.close()
