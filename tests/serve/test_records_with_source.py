"""Where another server holds the samples, records are kept here all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import yaml

from trilens.serve.compose import System
from trilens.settings.load import validate
from workload_records import some_records

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "https://127.0.0.1:1"


async def test_workloads_are_known_beside_a_foreign_source(tmp_path: Path) -> None:
    with some_records(tmp_path / "data"):
        pass
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": NOBODY}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "x"}}],
                "current-context": "c",
            }
        )
    )
    tree = {
        "source": {"url": NOBODY},
        "storage": {"data_dir": str(tmp_path / "data")},
        "kubernetes": {"clusters": {"lab": {"kubeconfig": str(kubeconfig)}}},
    }
    settings = validate(tree)
    system = System(settings, None, lambda: settings)
    try:
        await system.start()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(system.app), base_url="http://localhost"
        ) as client:
            answer = (await client.get("/api/workloads", params={"namespace": "web"})).json()
            assert [one["name"] for one in answer["data"]] == ["train"]
            assert "lab: not read through yet" in answer["warnings"]
            assert (await client.get("/metrics")).status_code == 200
    finally:
        await system.stop()
