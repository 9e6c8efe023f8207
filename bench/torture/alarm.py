"""A rule that raises an alert for each node of which `alarm` says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

_ALARM: Final[dict[str, Any]] = {
    "alert": "Alarm",
    "labels": {"severity": "critical", "layer": "platform"},
    "annotations": {"summary": "alarm on {{ $labels.node }}"},
}


def alarm_rules(folder: Path, expr: str = "alarm > 0") -> dict[str, Any]:
    """Settings that have it evaluated every second."""
    group = {"name": "torture", "interval": "1s", "rules": [{**_ALARM, "expr": expr}]}
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    return {"rules": {"files": ["rules.yml"]}}
