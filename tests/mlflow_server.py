"""A real MLflow server, and a program that logs to it."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from servers import free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_API = "/api/2.0/mlflow"
_START_S = 120.0  # it loads for ten seconds on an idle machine


class Mlflow:
    """A program that logs to a real MLflow server, by the API of its client, which loads slowly."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(_API + path, json=body)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def experiment(self, name: str) -> str:
        return str(self.post("/experiments/create", {"name": name})["experiment_id"])

    def run(self, experiment: str, name: str, *, tags: dict[str, str] | None = None) -> str:
        asked = {
            "experiment_id": experiment,
            "run_name": name,
            "start_time": _now_ms(),
            "tags": [{"key": key, "value": value} for key, value in (tags or {}).items()],
        }
        return str(self.post("/runs/create", asked)["run"]["info"]["run_id"])

    def log(self, run: str, metric: str, values: list[float | str], *, first_step: int = 0) -> None:
        start = _now_ms() - 10_000
        points = [
            {"key": metric, "value": value, "timestamp": start + step, "step": step}
            for step, value in enumerate(values, first_step)
        ]
        self.post("/runs/log-batch", {"run_id": run, "metrics": points})

    def end(self, run: str, status: str = "FINISHED") -> None:
        self.post("/runs/update", {"run_id": run, "status": status, "end_time": _now_ms()})

    def tags(self, run: str) -> dict[str, str]:
        return {tag["key"]: tag["value"] for tag in self._data(run).get("tags", ())}

    def metrics(self, run: str) -> dict[str, float]:
        return {one["key"]: one["value"] for one in self._data(run).get("metrics", ())}

    def _data(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get(f"{_API}/runs/get", params={"run_id": run}).json()["run"][
            "data"
        ]
        return found


@contextmanager
def mlflow_server(folder: Path) -> Iterator[Mlflow]:
    port = free_port()
    # As `mlflow server` starts it, which itself takes twice as long, and its jobs once more.
    command = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port)]
    command += ["mlflow.server.fastapi_app:app"]
    environment = {
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/db",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": f"{folder}/artifacts",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    ready = f"http://127.0.0.1:{port}/health"
    with running(command, ready, log=folder / "mlflow.log", start_s=_START_S, **environment):
        yield Mlflow(f"http://127.0.0.1:{port}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
