"""Imported jobs and usage as they go to a server: one JSON object a line.

Numbers of GPUs are text, `8`, `0.5` or `1/7`: a float would not keep a seventh.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilens.model.errors import IntakeError
from trilens.model.imported import ImportedJob, UsagePoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MAX_GPUS: Final = 10_000_000  # more than any cluster: a column of bytes or of milliseconds
MAX_TEXT: Final = 1_000  # of a job's name and the like
_MAX_MS: Final = 253_402_300_799_999  # the end of the year 9999
# As people write it, and as a fraction of twenty decimals is written.
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,20})?|\d{1,33}/[1-9]\d{0,20}")
_SOURCE: Final = re.compile(r"[^/\x00-\x1f]{1,100}")
_JOB_TEXTS: Final = ("model", "user", "team", "queue", "name", "state")
_Told = TypeVar("_Told", ImportedJob, UsagePoint)


@lru_cache(4096)  # tables have few numbers, and many rows
def read_fraction(text: str) -> Fraction:
    """Of GPUs, 0 or more; ValueError says what is wrong with it."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number of GPUs: write 8, 0.5 or 1/7")
    number = Fraction(text)
    if number > MAX_GPUS:
        raise ValueError(f"{text} GPUs are more than anyone has")
    return number


def check_source(name: str) -> str:
    if not _SOURCE.fullmatch(name) or name != name.strip():
        raise IntakeError(
            f"{name!r} is no name for a source", hint="1 to 100 characters, without / and line breaks"
        )
    return name


def job_line(job: ImportedJob) -> bytes:
    told = {name: value for name, value in job._asdict().items() if value not in (None, "")}
    del told["source"], told["cluster"]
    return json.dumps(told | {"gpus": str(job.gpus)}, ensure_ascii=False).encode() + b"\n"


def usage_line(point: UsagePoint) -> bytes:
    told = {"t_ms": point.t_ms, "ms": point.ms, "in_use": str(point.in_use)}
    if point.there is not None:
        told["there"] = str(point.there)
    return json.dumps(told).encode() + b"\n"


def read_jobs(body: bytes, source: str, cluster: str, *, first_line: int = 1) -> list[ImportedJob]:
    return list(_each(body, first_line, lambda told: _job(told, source, cluster)))


def read_usage(
    body: bytes, source: str, cluster: str, *, model: str = "", team: str | None = None, first_line: int = 1
) -> list[UsagePoint]:
    points = _each(body, first_line, lambda told: _point(told, source, cluster))
    return [point._replace(model=model, team=team) for point in points]


def _each(body: bytes, first_line: int, read: Callable[[dict[str, Any]], _Told]) -> Iterator[_Told]:
    for at, line in enumerate(body.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
            if not isinstance(told, dict):
                raise ValueError("not a JSON object")
            yield read(told)
        except ValueError as e:
            raise IntakeError(f"line {at}: {e}") from e


def _job(told: dict[str, Any], source: str, cluster: str) -> ImportedJob:
    _check_names(told, ("job", "submit_ms", "start_ms", "end_ms", "gpus", *_JOB_TEXTS))
    job = _text(told, "job")
    start_ms, end_ms = _moment(told, "start_ms"), _moment(told, "end_ms")
    if not job:
        raise ValueError("a job needs a `job`, its id")
    if start_ms is None:
        raise ValueError("a job needs a `start_ms`")
    if end_ms is not None and end_ms < start_ms:
        raise ValueError("the job ends before it begins")
    return ImportedJob(
        source,
        cluster,
        job,
        _moment(told, "submit_ms"),
        start_ms,
        end_ms,
        _gpus(told, "gpus"),
        model=_text(told, "model"),
        user=_text(told, "user"),
        team=_text(told, "team") or None,
        queue=_text(told, "queue") or None,
        name=_text(told, "name"),
        state=_text(told, "state"),
    )


def _point(told: dict[str, Any], source: str, cluster: str) -> UsagePoint:
    _check_names(told, ("t_ms", "ms", "in_use", "there"))
    t_ms, ms = _moment(told, "t_ms"), _moment(told, "ms")
    if t_ms is None or not ms:
        raise ValueError("a row of usage needs a `t_ms` and an `ms` above 0")
    there = _gpus(told, "there") if told.get("there") is not None else None
    return UsagePoint(source, cluster, t_ms, ms, _gpus(told, "in_use"), there)


def _check_names(told: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in told:
        if name not in known:
            raise ValueError(f"unknown field {name!r}: there are {', '.join(known)}")


def _moment(told: Mapping[str, Any], name: str) -> int | None:
    value = told.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_MS:
        raise ValueError(f"`{name}` is not a whole number of milliseconds")
    return value


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(f"`{name}` is not a text of at most {MAX_TEXT} characters")
    return value


def _gpus(told: Mapping[str, Any], name: str) -> Fraction:
    value = told.get(name)
    if not isinstance(value, str):
        raise ValueError(f'`{name}` is a number of GPUs as text: "8", "0.5" or "1/7"')
    return read_fraction(value)
