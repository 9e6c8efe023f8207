"""What a server may answer to records, and what that means for them."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, Final, NamedTuple

_NAMED: Final = re.compile(r"\bseq[ =:]*([0-9]{1,18})\b")


class Trouble(Enum):
    """Why nothing was taken. Records are kept through all of these, and sent again."""

    AWAY = "does not answer"
    BUSY = "takes nothing now"
    TOKEN = "refuses the token"  # noqa: S105 - a sentence, not a token
    WRONG = "is not a Trilens server, or not one that takes records"


class Taken(NamedTuple):
    seq: int | None  # all up to this one are on disk; None when the server has none of this writer
    interval_s: float | None


class Refused(NamedTuple):
    """One batch cannot be read, those before it were taken."""

    seq: int
    why: str


class TooLarge(NamedTuple):
    why: str


class NotTaken(NamedTuple):
    trouble: Trouble
    why: str
    retry_after_s: float | None = None


Answer = Taken | Refused | TooLarge | NotTaken


def read_answer(status: int, retry_after: str | None, body: bytes) -> Answer:
    if status == 200:
        return _taken(body)
    why = _error(body) or f"HTTP {status}"
    if status == 413:
        return TooLarge(why)
    if status == 400 and (seq := _refused_seq(body)) is not None:
        return Refused(seq, why)
    if status in (401, 403):
        return NotTaken(Trouble.TOKEN, why)
    if status in (408, 429) or status >= 500:
        return NotTaken(Trouble.BUSY, why, _seconds(retry_after))
    return NotTaken(Trouble.WRONG, why)


def _taken(body: bytes) -> Answer:
    data = _object(body).get("data")
    if not isinstance(data, dict) or "seq" not in data:
        return NotTaken(Trouble.WRONG, "HTTP 200, but not the answer of a Trilens server")
    seq, interval_s = data["seq"], data.get("interval_s")
    return Taken(
        seq if isinstance(seq, int) else None,
        float(interval_s) if isinstance(interval_s, int | float) else None,
    )


def _refused_seq(body: bytes) -> int | None:
    answer = _object(body)
    data = answer.get("data")
    seq = data.get("seq") if isinstance(data, dict) else answer.get("seq")
    if isinstance(seq, int):
        return seq
    named = _NAMED.search(str(answer.get("error")))
    return int(named[1]) if named else None


def _error(body: bytes) -> str | None:
    error = _object(body).get("error")
    return error[:300] if isinstance(error, str) else None


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, min(float(text or ""), 300.0))
    except ValueError:
        return None
