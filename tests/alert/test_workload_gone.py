"""Alerts of the pack that fire for a workload when it, and all that is told of it, is gone: they resolve."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import yaml

from trilens.alert.rule_tests.file import read_test_file
from trilens.alert.rule_tests.run import run_test_file
from trilens.model.series import stale_mask
from trilens.promql.script import Load, read_text
from trilens.settings.duration import format_duration

PACK = Path(__file__).parents[1] / "rules" / "alerts"
LATER = timedelta(minutes=10)


@pytest.mark.parametrize(
    ("file", "minutes", "alerts"),
    [
        (
            "training.yml",
            14,
            "CheckpointFailed GradientVanishing Stalled StepsStopped Vanished",
        ),
        (
            "inference.yml",
            12,
            "AvailabilityLow Down ErrorsHigh FirstTokenSlow P95High P99High QueueGrowing",
        ),
        (
            "platform.yml",
            16,
            "PodCrashLooping PodOomKilled PodPendingLong GangPartlyPlaced QuotaExhausted QueueQuotaExhausted",
        ),
    ],
    ids=["training", "inference", "platform"],
)
def test_they_resolve(tmp_path: Path, file: str, minutes: int, alerts: str) -> None:
    """The file's own samples up to a moment, then the end of every series."""
    prefix = {"training.yml": "Training", "inference.yml": "Inference"}.get(file, "")
    names = {f"{prefix}{name}" for name in alerts.split()}
    read = read_test_file(PACK / file)
    test, gone = read.tests[0], timedelta(minutes=minutes)
    every = test.interval or read.interval
    nothing = [
        {"eval_time": format_duration(at), "alertname": name, "exp_alerts": []}
        for name in sorted(names)
        for at in (gone, gone + LATER)
    ]
    cut = {
        "rule_files": [str(rules.resolve()) for rules in read.rule_files],
        "evaluation_interval": format_duration(read.interval),
        "tests": [
            {
                "interval": format_duration(every),
                "input_series": [
                    {"series": one.series, "values": _until_gone(one.series, one.values, gone // every)}
                    for one in test.input_series
                ],
                "alert_rule_test": nothing,
            }
        ],
    }
    (tmp_path / "gone.yml").write_text(yaml.safe_dump(cut), encoding="utf-8")
    report = run_test_file(tmp_path / "gone.yml")
    fired = {(failure.about, failure.eval_time) for failure in report.failures}
    assert fired == {(name, format_duration(gone)) for name in names}


def _until_gone(series: str, values: str, steps: int) -> str:
    (command,) = read_text(f"load 1m\n  {series} {values}\n", "input_series")
    assert isinstance(command, Load)
    points = command.series[0].points[: steps + 1]
    told = ["_" if one is None else _written(one) for one in points]
    return " ".join([*told, *["_"] * (steps + 1 - len(told)), "stale"])


def _written(value: float) -> str:
    return "stale" if stale_mask(np.array([value])).any() else repr(value)
