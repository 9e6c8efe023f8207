"""What the shell completes: commands and options, and names that the server knows."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from command_here import trilens_here
from http_target import Answer, HttpTarget
from trilens.cli import completion

WORKLOADS = [
    {"namespace": "ml", "name": "llm-7b"},
    {"namespace": "ml", "name": "llm-13b"},
    {"namespace": "vision", "name": "vit"},
]
RUNS = {"runs": [{"run": "llm-1", "experiment": "seven", "name": "warm-up"}], "next": None}


def completed(words: str, **environ: str) -> list[str]:
    """As fish asks."""
    told = trilens_here(
        _TRILENS_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS=f"trilens {words}",
        **environ,
    )
    assert (told.returncode, told.stderr) == (0, "")
    return [line.partition("\t")[0] for line in told.stdout.split()]


def envelope(data: Any) -> str:
    return json.dumps({"status": "success", "data": data})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_PATIENCE_S", 30.0)


@pytest.fixture
def server() -> Any:
    with HttpTarget() as target:
        target.say(envelope(WORKLOADS), "/api/workloads")
        target.say(envelope(RUNS), "/api/runs")
        target.say(envelope([{"id": "20261116-0432-64b1"}]), "/api/incidents")
        target.say(envelope([{"experiment": "seven"}, {"experiment": None}]), "/api/experiments")
        yield target


def test_names_of_workloads(server: HttpTarget) -> None:
    url = f"http://{server.address}"
    assert completed("show llm", TRILENS_SERVER=url) == ["llm-13b", "llm-7b"]
    assert completed("show ml/", TRILENS_SERVER=url) == ["ml/llm-13b", "ml/llm-7b"]
    assert completed(f"gpus --server {url} --workload v") == ["vit"]


def test_names_of_runs_incidents_and_experiments(server: HttpTarget) -> None:
    url = f"http://{server.address}"
    assert completed("runs show ", TRILENS_SERVER=url) == ["llm-1", "warm-up"]
    assert completed("runs show seven/", TRILENS_SERVER=url) == ["seven/warm-up"]
    assert completed("incidents 2026", TRILENS_SERVER=url) == ["20261116-0432-64b1"]
    assert completed("experiments s", TRILENS_SERVER=url) == ["seven"]
    assert completed("why 2", TRILENS_SERVER=url) == ["20261116-0432-64b1"]


def test_where_the_server_is_away_or_another_nothing_is_said(server: HttpTarget) -> None:
    assert completed("show l", TRILENS_SERVER="http://127.0.0.1:9") == []
    assert completed("show l", TRILENS_SERVER="no-url") == []
    server.say("<html>", "/api/workloads")
    assert completed("show l", TRILENS_SERVER=f"http://{server.address}") == []
    server.say(envelope({"alerts": []}), "/api/workloads")
    assert completed("show l", TRILENS_SERVER=f"http://{server.address}") == []


def test_a_server_that_takes_its_time_is_not_waited_for(
    server: HttpTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "_PATIENCE_S", 0.05)
    release = threading.Event()

    def late() -> bytes:
        release.wait(60)
        return envelope(WORKLOADS).encode()

    server.answers["/api/workloads"] = Answer(late)
    try:
        assert completed("show l", TRILENS_SERVER=f"http://{server.address}") == []
    finally:
        release.set()


def test_commands_and_options() -> None:
    assert "workloads" in completed("wor")
    assert "--csv" in completed("workloads --")
