"""The order in which series are shown: by their labels, unless the query itself gives one."""

from __future__ import annotations

import re
from typing import Any

Key = tuple[tuple[bool, int, str], ...]

# The outermost call decides; `sort(a) > 1` keeps the order, too.
_SORTS = re.compile(
    r"[\s(]*(?:sort|sort_desc|sort_by_label|sort_by_label_desc|topk|bottomk)\s*(?:\(|(?:by|without)\b)", re.I
)


def gives_an_order(expression: str) -> bool:
    return _SORTS.match(expression) is not None


def by_labels(result: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(result, key=lambda series: [(n, natural(v)) for n, v in sorted(series["metric"].items())])


def natural(text: str) -> Key:
    """A sort key for which gpu-2 comes before gpu-10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts)
