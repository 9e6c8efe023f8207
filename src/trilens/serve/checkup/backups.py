"""Whether there is something to restore from, where somebody wants that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from trilens.serve.checkup.finding import Finding, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

_LATE: Final = 2  # times the interval: one may fail, and the next be made


def backups_see(evidence: Evidence) -> str:
    made = evidence.backups["backups"]
    if evidence.backups["directory"] is None:
        return "made by the ClickHouse server that has the tables, if at all"
    if not made:
        return "none"
    return f"{many(len(made), 'backup')}, the latest {_age(made[-1]['made_ms'])} old"


def failed(evidence: Evidence) -> Iterator[Finding]:
    if evidence.backups["failed"] is not None:
        what = f"the last backup failed: {evidence.backups['error']}"
        means = (
            "the latest is older than it should be" if evidence.backups["backups"] else "there is none yet"
        )
        yield Finding("failed", True, what, means, "see that disk")


def overdue(evidence: Evidence) -> Iterator[Finding]:
    """Of one that is asked for in the settings, and of none other."""
    every_s, made = evidence.backups["every_s"], evidence.backups["backups"]
    if every_s is None or not made:
        return
    if time.time() - made[-1]["made_ms"] / 1000 > _LATE * every_s:
        what = f"the latest backup is {_age(made[-1]['made_ms'])} old"
        yield Finding("overdue", True, what, "what came in since is in none", "see the server's log")


def beside_the_data(evidence: Evidence) -> Iterator[Finding]:
    if evidence.backups["every_s"] is not None and evidence.backups["is_on_data_disk"]:
        what = f"backups lie on the disk of the data: {evidence.backups['directory']}"
        remedy = "set storage.backup_dir to another one, or copy them away: trilens backup FILE.tar"
        yield Finding("beside_the_data", False, what, "one broken disk takes both", remedy)


def _age(made_ms: int) -> str:
    hours = max(time.time() - made_ms / 1000, 0) / 3600
    return many(hours / 24, "day") if hours >= 48 else many(hours, "hour")
