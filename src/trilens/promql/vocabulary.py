"""The words of PromQL, and how a message names them."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Final

from trilens.promql.nodes import COMPARISONS, SET_OPERATORS
from trilens.promql.signatures import SIGNATURES

if TYPE_CHECKING:
    from trilens.promql.nodes import ValueKind
    from trilens.promql.tokens import Token

_LEVELS: Final = (
    {"or"},
    {"and", "unless"},
    COMPARISONS,
    {"+", "-"},
    {"*", "/", "%", "atan2"},
    {"^"},
)
PRECEDENCE: Final = {op: level for level, ops in enumerate(_LEVELS) for op in ops}
POWER: Final = PRECEDENCE["^"]
PARAMETERS: Final[dict[str, ValueKind]] = {
    "topk": "scalar",
    "bottomk": "scalar",
    "quantile": "scalar",
    "limitk": "scalar",
    "limit_ratio": "scalar",
    "count_values": "string",
}
AGGREGATIONS: Final = frozenset(PARAMETERS) | {
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "group",
    "stddev",
    "stdvar",
}
GROUPING: Final = frozenset({"by", "without"})
FILLS: Final = frozenset({"fill", "fill_left", "fill_right"})
EXTENDED: Final = frozenset({"anchored", "smoothed"})
NEVER_NAMES: Final = EXTENDED | {"bool", "on", "ignoring", "group_left", "group_right", "atan2"}
_KEYWORDS: Final = GROUPING | NEVER_NAMES | {"offset"}
NEVER_CALLED: Final = _KEYWORDS | SET_OPERATORS
NUMBER_WORDS: Final = frozenset({"inf", "nan"})
NEVER_LABELS: Final = EXTENDED | NUMBER_WORDS | {"without"}
MATCH_OPERATORS: Final = frozenset({"=", "!=", "=~", "!~"})
TIME_BOUNDS: Final = frozenset({"start", "end"})
UNITS: Final = frozenset("smhdwy")
_SHOWN: Final = 20  # characters of a token that a message repeats


def described(token: Token, *, in_braces: bool) -> str:
    """The token as Prometheus writes it in its messages."""
    text = token.text if len(token.text) <= _SHOWN else f"{token.text[:_SHOWN]}..."
    word = token.text.lower()
    match token.kind:
        case "end":
            return "end of input"
        case "string":
            return f"string {text}"
        case "number":
            return f"{'duration' if text[-1] in UNITS else 'number'} {json.dumps(text)}"
        case "word" if in_braces:
            return f"identifier {json.dumps(text)}"
    if word in PRECEDENCE or word in ("@", "=~", "!~"):
        return f"<op:{text}>"
    if token.kind != "word" or word in TIME_BOUNDS:
        return json.dumps(text)
    if word in _KEYWORDS:
        return f"<{text}>"
    if word in AGGREGATIONS:
        return f"<aggr:{text}>"
    if word in NUMBER_WORDS:
        return f"number {json.dumps(text)}"
    return f"{'metric identifier' if ':' in text else 'identifier'} {json.dumps(text)}"


def nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [*SIGNATURES, *AGGREGATIONS], n=1)
    return f", did you mean {json.dumps(near[0])}?" if near else ""
