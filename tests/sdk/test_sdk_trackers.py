"""A program that uses a tracker as well: which run of it this is, told without loading or asking anything."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from trilens.sdk.trackers import TrackerWatch

if TYPE_CHECKING:
    import pytest


def watch(environ: dict[str, str] | None = None) -> tuple[TrackerWatch, list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    return TrackerWatch(told.append, environ or {}), told


def test_a_run_that_begins_later_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None))
    watching, told = watch()
    watching.look()
    assert told == []
    run = SimpleNamespace(id="abc", entity="team", project="llm")
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=run))
    watching.look()
    watching.look()
    tracker = {"system": "wandb", "run": "abc", "where": "team/llm"}
    assert told == [{"trackers": [tracker]}]


def test_mlflow_is_asked_for_its_active_run(monkeypatch: pytest.MonkeyPatch) -> None:
    active = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    mlflow = SimpleNamespace(active_run=lambda: active, get_tracking_uri=lambda: "http://mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    watching, told = watch()
    watching.look()
    assert told[0]["trackers"] == [{"system": "mlflow", "run": "r1", "where": "http://mlflow"}]


def test_a_run_of_another_thread_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's: MLflow tells each thread of its own runs only, and the SDK looks from a thread."""
    active = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    mlflow = SimpleNamespace(active_run=lambda: None, get_tracking_uri=lambda: "https://ada:sesame@mlflow/x")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    fluent = SimpleNamespace(_get_latest_active_run=lambda: active)
    monkeypatch.setitem(sys.modules, "mlflow.tracking.fluent", fluent)
    watching, told = watch()
    watching.look()
    assert told[0]["trackers"] == [{"system": "mlflow", "run": "r1", "where": "https://<secret>@mlflow/x"}]


def test_mlflow_still_has_what_tells_of_all_threads() -> None:
    """Read, not loaded: that takes seconds."""
    found = importlib.util.find_spec("mlflow")
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).with_name("tracking") / "fluent.py"
    assert "def _get_latest_active_run()" in source.read_text(encoding="utf-8")


def test_the_environment_tells_where_no_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    watching, told = watch({"MLFLOW_RUN_ID": "r2", "WANDB_RUN_ID": "w2", "WANDB_PROJECT": "llm"})
    watching.look()
    assert [one["run"] for one in told[0]["trackers"]] == ["r2", "w2"]


def test_nothing_is_loaded_and_nothing_told_without_a_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    watching, told = watch()
    watching.look()
    assert told == []
    assert "mlflow" not in sys.modules
    assert "wandb" not in sys.modules
