"""A whole server: what a program tells of its end is found, shown and told as a metric."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import httpx

from run_lines import Sender
from trilens.serve.compose import System
from trilens.settings.load import validate

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.detect.scene import Scene
    from trilens.detect.watch import Changes


async def test_a_program_that_fails_is_found(tmp_path: Path) -> None:
    settings = validate({"storage": {"data_dir": str(tmp_path / "data")}, "rules": {"builtin": False}})
    system = System(settings, None, lambda: settings)
    loop, looked, found = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def heard(_scene: Scene, changes: Changes) -> None:
        loop.call_soon_threadsafe(looked.set)
        if changes.opened:
            loop.call_soon_threadsafe(found.set)

    system.detection.listen(heard)
    try:
        await system.start()
        transport = httpx.ASGITransport(system.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await asyncio.wait_for(looked.wait(), 60)  # of what was before, who is silent may still come back
            sender = Sender()
            ended = {"t_ms": int(time.time() * 1000) + 1, "how": "failed", "error": "ValueError: no labels"}
            body = sender.first(5) + sender.batch(end=ended)
            told = await client.post("/api/v1/runs/records", content=body)
            assert told.status_code == 200, told.text
            await asyncio.wait_for(found.wait(), 60)
            answer = (await client.get("/api/findings")).json()
            (finding,) = answer["data"]
            assert (finding["code"], finding["cause"], finding["rank"]) == ("D010", "exception", 0)
            assert "no labels" in finding["text"]
            shown = (await client.get("/api/v1/query", params={"query": "trilens_finding"})).json()
            (series,) = shown["data"]["result"]
            assert series["metric"]["finding"] == "crash"
            page = (await client.get("/metrics/workloads")).text
            assert "trilens_finding{" in page
            own = (await client.get("/metrics")).text
            assert 'trilens_findings_open{severity="critical"} 1.0' in own
    finally:
        await system.stop()
