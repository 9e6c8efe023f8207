"""The numbers that alerts compare with: those that the settings name instead are the ones evaluated."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from trilens.alert.rule import RecordingRule
from trilens.model.errors import ConfigError
from trilens.rules import rule_files
from trilens.rules.thresholds import FILE, thresholds, with_thresholds
from trilens.serve.rules import rule_groups
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path


def evaluated(file: Path) -> dict[str, float]:
    """Thresholds as the server would record them with this settings file."""
    groups = rule_groups(load_settings(file, environ={}))
    return {
        dict(rule.labels)["of"]: float(rule.expr.removeprefix("vector(").removesuffix(")"))
        for group in groups
        for rule in group.rules
        if isinstance(rule, RecordingRule) and rule.record == "trilens:threshold"
    }


def test_a_setting_takes_the_place_of_the_shipped_number(tmp_path: Path) -> None:
    file = tmp_path / "trilens.yaml"
    file.write_text("rules:\n  thresholds: {gpu_temperature_celsius: 85, gpu_memory_used_ratio: 1e-7}\n")
    assert evaluated(file) == {**thresholds(), "gpu_temperature_celsius": 85, "gpu_memory_used_ratio": 1e-7}
    assert thresholds()["gpu_temperature_celsius"] == 83


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu_temprature_celsius: 85", "'gpu_temprature_celsius'; do you mean 'gpu_temperature_celsius'?"),
        ("weather: 1", "there is no threshold 'weather'"),
        ("gpu_temperature_celsius: .nan", "the threshold gpu_temperature_celsius cannot be nan"),
        ("gpu_temperature_celsius: warm", "thresholds.gpu_temperature_celsius"),
    ],
    ids=["misspelt", "unknown", "nan", "a word"],
)  # fmt: skip
def test_a_wrong_one_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "trilens.yaml"
    file.write_text(f"rules:\n  thresholds:\n    {text}\n")
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        load_settings(file, environ={})
    assert (caught.value.where or "").startswith(f"{file}:")


def test_every_number_of_the_file_can_be_replaced() -> None:
    """Whoever writes an entry in another way than the others is told here."""
    text = next(entry for entry in rule_files() if entry.name == FILE).read_text(encoding="utf-8")
    assert text.count("- record: trilens:threshold\n") == len(thresholds())
    others = dict.fromkeys(thresholds(), 12345.0)
    assert with_thresholds(text, others).count("expr: vector(12345)") == len(thresholds())
    assert with_thresholds(text, {}) == text
