"""What the engine's own errors mean to us. ClickHouse numbers them, and every message holds the number."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Final

from trilens.model.errors import (
    QueryCancelled,
    QueryTimeout,
    QueryTooLarge,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
    TrilensError,
)
from trilens.store.links import NobodyAnswers

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard

_CODE = re.compile(r"Code: (\d+)")
_TASK = re.compile(r"task \S*?/(query-\d+)\b")
_PART = re.compile(r"reading from part (\S+?)/? in table (?:\S+?\.)?([A-Za-z0-9_]+)")
_NO_SPACE = re.compile(
    rf"No space left on device|errno: {errno.ENOSPC}\b|errno: {errno.EDQUOT}\b|Disk quota exceeded"
)

_TIMEOUT: Final = frozenset({159, 160})
_CANCELLED: Final = 394
_MEMORY: Final = 241
_NOT_ENOUGH_SPACE: Final = 243
_REPLICA_BEHIND: Final = 517  # it has changes before this one to make; another moment, and it takes it
_TOO_MANY_ROWS_OR_BYTES: Final = frozenset({158, 396})
# A part whose bytes do not say what they should: end of file, missing or wrong-sized file, bad checksum,
# bad compressed block, unknown codec.
_BROKEN_DATA: Final = frozenset({23, 32, 33, 40, 74, 76, 79, 88, 107, 117, 226, 228, 246, 271, 432, 740})


def translate(fault: Exception, doing: str, guard: QueryGuard | None = None) -> TrilensError:
    """The error of ours to raise for `fault`, met while `doing`."""
    text = str(fault)
    if isinstance(fault, NobodyAnswers):
        return StoreError(text, hint="is it running, and is storage.url right?")
    code = _code(text)
    if code in _TIMEOUT or (code == _CANCELLED and guard is not None and guard.remaining_s <= 0):
        # Without a guard the limit is one of the engine's own, which it names, as it does who did not answer.
        limit = f" than {guard.timeout_s:g} s" if guard is not None else f": {summary(text)}"
        return QueryTimeout(f"the query took longer{limit}")
    if code == _CANCELLED:
        return QueryCancelled("the query was cancelled")
    if code == _NOT_ENOUGH_SPACE or _NO_SPACE.search(text) or _is_no_space(fault):
        return StoreReadOnly(f"no space left on disk while {doing}")
    if code in _TOO_MANY_ROWS_OR_BYTES:
        return QueryTooLarge("the query reads more samples than it may hold in memory")
    if code == _MEMORY and guard is not None:
        return QueryTooLarge("the query needs more memory than the engine may use")
    part = _PART.search(text)
    if code in _BROKEN_DATA and part:
        return StoreDamaged(part.group(2), part.group(1).rstrip("/").rsplit("/", 1)[-1], summary(text))
    return StoreError(f"the engine failed while {doing}: {summary(text)}")


def is_replica_behind(fault: Exception) -> bool:
    """Two servers that change the same table at once, or one that asks two replicas, meet it."""
    return _code(str(fault)) == _REPLICA_BEHIND


def task_of(fault: Exception) -> str | None:
    """The name of a statement for every node, where it is that some of them did not do it in time."""
    text = str(fault)
    found = _TASK.search(text) if _code(text) in _TIMEOUT else None
    return found.group(1) if found else None


def _code(text: str) -> int | None:
    found = _CODE.search(text)
    return int(found.group(1)) if found else None


def _is_no_space(fault: BaseException | None) -> bool:
    while fault is not None:
        if isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        fault = fault.__cause__
    return False


def summary(text: str) -> str:
    """The first sentence or so: the engine appends stack traces, the query and its version."""
    text = text[text.find("Code: ") :] if "Code: " in text else text
    text = text.replace("DB::Exception: ", "").split("\n", 1)[0]
    return text if len(text) <= 400 else text[:397] + "..."
