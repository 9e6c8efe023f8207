"""History from before Trilens: jobs of a scheduler's table, and how many GPUs were in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fractions import Fraction


class ImportedJob(NamedTuple):
    """(source, job) names it: told again, it replaces what was told."""

    source: str  # the name that the import was given; stands where a node does
    cluster: str
    job: str
    submit_ms: int | None
    start_ms: int
    end_ms: int | None  # None: still ran when the table was written
    gpus: Fraction
    model: str = ""
    user: str = ""
    team: str | None = None
    queue: str | None = None
    name: str = ""
    state: str = ""  # in the table's own word


class UsagePoint(NamedTuple):
    """From `t_ms` on, for `ms`: so many GPUs in use, of so many that were there."""

    source: str
    cluster: str
    t_ms: int
    ms: int
    in_use: Fraction
    there: Fraction | None
    model: str = ""
    team: str | None = None
