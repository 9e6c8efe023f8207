"""Jobs of a scheduler's table: what counts, what does not and why, and all of it read before any is sent."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from fractions import Fraction
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from trilens.cli.import_table import BadRows, Row, check_columns, mapped
from trilens.cli.import_values import read_gpus
from trilens.model.errors import ConfigError
from trilens.model.imported import ImportedJob
from trilens.model.imported_lines import MAX_TEXT, job_line, read_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.cli.import_table import Table
    from trilens.cli.import_values import Clock
    from trilens.cli.progress import Advance

FIELDS: Final = ("job", "submit", "start", "end", "gpus", "model", "user", "team", "queue", "name", "state")
# What `sacct -P` calls them; of several, the first that the table has.
SACCT: Final[Mapping[str, Sequence[str]]] = {
    "job": ("JobID", "JobIDRaw"),
    "submit": ("Submit",),
    "start": ("Start",),
    "end": ("End",),
    "gpus": ("AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES"),
    "user": ("User",),
    "team": ("Account",),
    "queue": ("Partition",),
    "name": ("JobName",),
    "state": ("State",),
}
_IN_MEMORY: Final = 16 << 20
_EARLIEST_MS: Final = 315_532_800_000  # 1980: before it, a column of days or of durations was read
_AHEAD_MS: Final = 86_400_000  # a zone that was taken for another is less than a day off
_TOLD_EVERY: Final = 1_000  # rows, between two signs of progress


class Owned(NamedTuple):
    """What the command line says of all rows."""

    source: str
    cluster: str
    model: str
    team: str | None


class JobReport:
    def __init__(self, bad: BadRows) -> None:
        self.bad = bad
        self.rows = 0
        self.jobs = 0
        self.left_out: Counter[str] = Counter()
        self.without_end = 0
        self.gpu_ms = Fraction()
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add(self, job: ImportedJob, end_ms: int) -> None:
        self.jobs += 1
        self.gpu_ms += job.gpus * (end_ms - job.start_ms)
        self.first_ms = job.start_ms if self.first_ms is None else min(self.first_ms, job.start_ms)
        self.last_ms = end_ms if self.last_ms is None else max(self.last_ms, end_ms)


class JobTable:
    """The jobs of one file, kept on disk until the whole of it was read."""

    def __init__(self, owned: Owned, clock: Clock, now_ms: int, bad: BadRows, *, sacct: bool) -> None:
        self.report = JobReport(bad)
        self._sacct = sacct
        self._owned = owned
        self._clock = clock
        self._now_ms = now_ms
        self._kept: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - as long as this
        self._told_upto_ms = 0  # the last moment that the table tells of
        self._latest: dict[str, int] = {}  # by job: when the last of its lives began
        self._lines: dict[int, int] = {}  # by the hash of a job and its start
        self._equal: Counter[str] = Counter()

    def read(self, table: Table, mapping: Mapping[str, str], advance: Advance) -> None:
        for row, line, trouble in mapped(table, mapping):
            self.report.rows += 1
            if row is None:
                self.report.bad.add(line, trouble)
                continue
            try:
                job = self._job(row)
            except ValueError as e:
                self.report.bad.add(line, str(e))
                continue
            if job is not None:
                self._latest[job.job] = max(self._latest.get(job.job, 0), job.start_ms)
                self._kept.write(job_line(job))
            if self.report.rows % _TOLD_EVERY == 0:
                advance(table.position() if table.position is not None else 0, self.report.rows)

    def jobs(self, until_ms: int | None) -> Iterator[ImportedJob]:
        """Those without an end last until then, or to the last moment that the table tells of."""
        upto_ms = self._told_upto_ms if until_ms is None else until_ms
        self._kept.seek(0)
        for line in self._kept:
            job = read_jobs(line, self._owned.source, self._owned.cluster)[0]
            if job.start_ms < self._latest[job.job]:
                # Requeued: the last life keeps the job's id, as it has where a table has only that one.
                job = job._replace(job=f"{job.job}/{job.start_ms // 1000}")
            if job.end_ms is None:
                self.report.without_end += 1
                job = job._replace(end_ms=max(upto_ms, job.start_ms))
            assert job.end_ms is not None
            if job.end_ms == job.start_ms:
                self.report.left_out["ran for no time"] += 1
                continue
            self.report.add(job, job.end_ms)
            yield job

    def _job(self, row: Row) -> ImportedJob | None:
        """None for a row that is right and is no job on a GPU."""
        name = row.get("job")
        if self._sacct and "." in name:  # 123.batch, 123.0: their job's row has their time
            self.report.left_out["job steps"] += 1
            return None
        submit_ms, start_ms, end_ms = (self._clock.read(row.get(at)) for at in ("submit", "start", "end"))
        if start_ms is None:
            self.report.left_out["never started"] += 1
            return None
        self._check_times(start_ms, end_ms)
        gpus = read_gpus(row.get("gpus"), self._owned.model)
        if gpus is None:
            raise ValueError("the job ran, and its GPUs are not told")
        self._told_upto_ms = max(self._told_upto_ms, start_ms, end_ms or 0)
        if not gpus.number:
            self.report.left_out["without GPUs"] += 1
            return None
        job = ImportedJob(
            self._owned.source,
            self._owned.cluster,
            name or self._content_name(row),
            submit_ms,
            start_ms,
            end_ms,
            gpus.number,
            row.get("model") or self._owned.model or gpus.model,
            row.get("user"),
            row.get("team") or self._owned.team,
            row.get("queue") or None,
            row.get("name")[:MAX_TEXT],
            row.get("state"),
        )
        before = self._lines.setdefault(hash((job.job, start_ms)), row.line)
        if before != row.line:
            raise ValueError(f"job {job.job} with this start is in line {before} already")
        return job

    def _check_times(self, start_ms: int, end_ms: int | None) -> None:
        if start_ms < _EARLIEST_MS:
            raise ValueError("the job started before 1980: is the column in another unit?")
        if max(start_ms, end_ms or 0) > self._now_ms + _AHEAD_MS:
            raise ValueError("the job is in the future")
        if end_ms is not None and end_ms < start_ms:
            raise ValueError("the job ends before it starts")

    def _content_name(self, row: Row) -> str:
        """A table without ids: the same row has the same name whenever it is imported, wherever it stands."""
        content = "\x1f".join(f"{field}={row.get(field)}" for field in FIELDS)
        digest = hashlib.blake2s(content.encode(), digest_size=8).hexdigest()
        self._equal[digest] += 1
        return f"row-{digest}" + (f"-{self._equal[digest]}" if self._equal[digest] > 1 else "")


def job_mapping(given: Mapping[str, str], table: Table, *, sacct: bool) -> dict[str, str]:
    mapping = dict(given)
    if sacct:
        for field, names in SACCT.items():
            column = next((name for name in names if name in table.columns), None)
            if column is not None:
                mapping.setdefault(field, column)
    check_columns(mapping, table)
    missing = [field for field in ("start", "end", "gpus") if field not in mapping]
    if missing:
        raise ConfigError(
            f"{table.name}: no column is named for {', '.join(missing)}",
            where="--map",
            hint=f"the table has {', '.join(table.columns)}: --map {missing[0]}=COLUMN",
        )
    return mapping


def looks_like_sacct(table: Table) -> bool:
    return {"JobID", "JobIDRaw"} & set(table.columns) != set() and "Start" in table.columns


def as_dict(report: JobReport) -> dict[str, Any]:
    return {
        "rows": report.rows,
        "jobs": report.jobs,
        "left_out": dict(report.left_out),
        "bad": report.bad.count,
        "without_end": report.without_end,
        "gpu_hours": float(report.gpu_ms / 3_600_000),
        "start": None if report.first_ms is None else report.first_ms / 1000,
        "end": None if report.last_ms is None else report.last_ms / 1000,
    }
