"""What a machine remembers of earlier preflights: a line for each, in a file of its own."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SLOWER_SHARE: Final = 0.85  # of before: between two runs on the same machines little else changes
KEPT: Final = 500
_LATELY: Final = 20


class Baseline(NamedTuple):
    """The medians of earlier times under the same conditions; None where there were none."""

    times: int = 0
    flops_per_s: float | None = None
    link_bytes_per_s: float | None = None
    bus_bytes_per_s: float | None = None


def remember(folder: Path, node: str, summary: Mapping[str, Any]) -> None:
    """Only this node's part; the oldest go."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _name(node)
    own: Mapping[str, Any] = next((one for one in summary["nodes"] if one["node"] == node), {})
    line = json.dumps({**summary, "nodes": [own]})
    kept = [*_lines(file), line][-KEPT:]
    fresh = file.with_suffix(".new")
    fresh.write_text("\n".join(kept) + "\n", encoding="utf-8")
    fresh.replace(file)


def recall(folder: Path, node: str, *, world_size: int, backend: str, device: str) -> Baseline:
    """Compared is like with like: the same number of ranks, the same backend, the same GPUs."""
    wanted = {"world_size": world_size, "backend": backend, "device": device}
    told = [_parsed(line) for line in _lines(folder / _name(node))]
    alike = [one for one in told if all(one.get(key) == value for key, value in wanted.items())][-_LATELY:]
    own = [one["nodes"][0] for one in alike if one.get("nodes")]
    return Baseline(
        len(alike),
        _median(own, "flops_per_s"),
        _median(own, "link_bytes_per_s"),
        _median(alike, "bus_bytes_per_s"),
    )


def _median(told: Sequence[Mapping[str, Any]], key: str) -> float | None:
    known = [one[key] for one in told if one.get(key) is not None]
    return float(median(known)) if known else None


def _parsed(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:  # a line that a full disk cut short
        return {}
    return value if isinstance(value, dict) else {}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _name(node: str) -> str:
    safe = "".join(c if c.isalnum() or c in "-." else "_" for c in node)
    return f"{safe}.jsonl"
