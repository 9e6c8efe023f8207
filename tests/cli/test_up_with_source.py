"""`trilens up` in front of a Prometheus that somebody already runs."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import httpx

from metric_sources import prometheus
from run_lines import Sender
from trilens_process import server, trilens

if TYPE_CHECKING:
    from pathlib import Path


def test_queries_go_there_and_own_series_arrive_there(tmp_path: Path) -> None:
    (tmp_path / "prometheus").mkdir()
    with prometheus(tmp_path / "prometheus") as source:
        config = tmp_path / "trilens.yaml"
        config.write_text(
            f"source: {{url: '{source}'}}\n"
            f"remote_write: {{url: '{source}/api/v1/write', interval: 1h, labels: {{site: lab}}}}\n",
            encoding="utf-8",
        )
        with server(tmp_path, "--config", str(config)) as (url, process):
            assert httpx.get(f"{url}/readyz").json() == {
                "ready": True,
                "source": {"url": source, "reachable": True},
                "ledger": {"troubles": []},
            }
            here = httpx.get(f"{url}/api/v1/query?query=vector(1)&time=1").json()
            assert here == httpx.get(f"{source}/api/v1/query?query=vector(1)&time=1").json()
            assert httpx.post(f"{url}/api/v1/write").status_code == 400
            assert httpx.get(f"{url}/api/v1/targets").json()["data"]["activeTargets"] == []
            assert httpx.get(f"{url}/api/v1/status/tsdb").status_code == 200
            # Programs tell of their runs here, whoever has the samples.
            told = httpx.post(f"{url}/api/v1/runs/records", content=Sender(run="r").first(2))
            assert told.json()["data"]["seq"] == 0
            assert [one["run"] for one in httpx.get(f"{url}/api/runs").json()["data"]["runs"]] == ["r"]
            # The last push, at the end, carries what was counted until then.
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        query = 'sum(trilens_http_requests_total{site="lab",handler="/api/v1/query"})'
        said = trilens("query", query, "--server", source)
        assert said.stdout == "{} 1\n"
