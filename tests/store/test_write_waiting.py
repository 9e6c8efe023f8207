"""For how long what is not written has been waiting: as long as the engine refuses it."""

from __future__ import annotations

import threading
from typing import Any

from servers import until
from trilens.model.errors import StoreError
from trilens.store.horizon import Horizon
from trilens.store.inserts import MetricRow
from trilens.store.writer import Writer, WriterOptions


class Engine:
    """Refuses until it is told otherwise."""

    def __init__(self) -> None:
        self.takes = threading.Event()

    def insert_arrow(self, _table: str, _rows: object) -> None:
        if not self.takes.is_set():
            raise StoreError("not now")


def test_it_waits_until_it_is_written() -> None:
    engine: Any = Engine()
    writer = Writer(engine, Horizon(), WriterOptions(flush_s=0.0))
    try:
        assert writer.health().waiting_s == 0
        writer.submit(metadata=[MetricRow("up", "gauge", "", "")])
        until(lambda: writer.health().state == "failing", "the engine refuses")
        before = writer.health().waiting_s
        assert 0 < before < writer.health().waiting_s
        engine.takes.set()
        until(lambda: writer.health().waiting_s == 0, "it is written")
    finally:
        engine.takes.set()
        writer.close()
