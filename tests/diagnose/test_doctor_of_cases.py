"""`trilens doctor` where a case says more: why nothing is heard of a node, and what a bundle lacks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from scenario_files import FOLDER, Scenario
from typer.testing import CliRunner

from trilens.cli.client import Client
from trilens.cli.main import app
from trilens.diagnose.bundle import write_bundle
from trilens.diagnose.case_file import CaseTarget
from trilens.diagnose.told import told
from trilens.diagnose.walk import why
from trilens.model.verdict import Missing
from trilens.serve.checkup.evidence import Evidence
from trilens.serve.checkup.nodes import gpus

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    import pytest

LABEL = "kubectl label servicemonitor -n gpu-operator nvidia-dcgm-exporter release=kube-prometheus-stack"
NOT_SELECTED = Scenario(FOLDER / "service-monitor-not-selected", {})


def test_a_servicemonitor_without_the_label_that_the_operator_selects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a node's GPUs that nobody hears of, with the command that mends it."""
    case = NOT_SELECTED.case()
    asked: list[tuple[str, Any]] = []
    client = Client("http://127.0.0.1:1")
    answers = {
        "/api/gpus": [{"state": "blind", "cluster": "prod", "node": "gpu-1", "count": 8}],
        "/api/why": told(case.file, why(case)),
    }

    def get(path: str, params: Any = None) -> dict[str, Any]:
        asked.append((path, params))
        return {"data": answers[path]}

    monkeypatch.setattr(client, "get", get)
    (found,) = gpus(Evidence(client))
    assert (found.what, found.is_problem) == ("no GPU reports on gpu-1 (8)", True)
    assert LABEL in found.remedy
    assert asked[-1] == ("/api/why", {"subject": "prod/node/gpu-1"})


def test_what_a_bundle_says_of_where_it_came_from(tmp_path: Path) -> None:
    bundle = tmp_path / "case.zip"
    case = NOT_SELECTED.case().file
    down = CaseTarget("agents", "n2:9334", {}, False, "connection refused")
    lacks = Missing("Kueue Workloads", 'allow "list" on workloads')
    write_bundle(replace(case, made_by="1.2", targets=(*case.targets, down), missing=(lacks,)), bundle)
    said = CliRunner().invoke(app, ["doctor", "--bundle", str(bundle), "--json"], catch_exceptions=False)
    assert said.exit_code == 1
    found = {one["check"]: one for one in json.loads(said.stdout)}
    assert found["scrapes"]["what"] == "agents: n2:9334: connection refused"
    assert LABEL in found["telemetry"]["remedy"]
    text = CliRunner().invoke(app, ["doctor", "--bundle", str(bundle)]).stdout
    assert "workload train, by Trilens 1.2: " in text
    assert " 0 series, 2 targets" in text
    assert (found["missing"]["is_problem"], found["missing"]["remedy"]) == (False, lacks.remedy)


def test_a_bundle_is_read_without_a_server(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["doctor", "--bundle", str(tmp_path / "x.zip"), "--server", "http://s"])
    assert "leave out --server" in str(said.exception)
