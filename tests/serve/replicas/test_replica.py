"""What a server that waited takes with it when its turn comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trilens.serve.replicas import replica as replica_module
from trilens.serve.replicas.replica import Replica
from trilens.serve.self_metrics import SelfMetrics
from trilens.settings.tree import Settings

if TYPE_CHECKING:
    import pytest

    from trilens.serve.replicas.election import Held


class FreeLease:
    def __init__(self, *_: object) -> None:
        self._held: Held | None = None

    async def read(self) -> Held | None:
        return self._held

    async def write(self, held: Held) -> None:
        self._held = held

    async def close(self) -> None:
        pass


def test_the_certificate_is_known_where_it_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who answers on the socket told it when that was opened, long before."""
    taken_over = asyncio.Event()

    class System:
        def __init__(self, *_: object) -> None:
            self.metrics = SelfMetrics()

        async def start(self) -> None:
            taken_over.set()

        async def stop(self) -> None:
            pass

    stand_ins = {
        "InClusterAccess": lambda: None,
        "KubeApi": lambda _access: None,
        "KubernetesLease": FreeLease,
        "System": System,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(replica_module, name, stand_in)
    settings = Settings.model_validate(
        {"replicas": {"lease": "ops/trilens"}, "storage": {"url": "clickhouse://u@nowhere/trilens"}}
    )

    async def take_over() -> tuple[SelfMetrics, SelfMetrics]:
        replica = Replica(settings, None, lambda: settings)
        before = replica.metrics
        before.certificate_ends_s, before.certificate_trouble = 1_800_000_000.0, "no key"
        await replica.start()
        async with asyncio.timeout(60):
            await taken_over.wait()
        await replica.stop()
        return before, replica.metrics

    before, metrics = asyncio.run(take_over())
    assert metrics is not before
    assert (metrics.certificate_ends_s, metrics.certificate_trouble) == (1_800_000_000.0, "no key")
