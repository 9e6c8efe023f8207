"""Imported history is kept once, and which hours an import touches is said."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from trilens.model.imported import ImportedJob, UsagePoint
from trilens.model.ledger import HOUR_MS
from trilens.store.imports import ImportRecords
from trilens.store.ledger import Ledger
from trilens.store.ledger_facts import LedgerFacts
from trilens.store.machines import MachineRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from trilens.store.engine import Engine

NOON_MS = 1_500_033_600_000  # in 2017


def at(hours: float) -> int:
    return NOON_MS + round(hours * HOUR_MS)


def job(name: str, begin: float, end: float, **others: object) -> ImportedJob:
    told = {"gpus": Fraction(1, 7), "model": "P100", "user": "it's", "team": "nlp", "name": "x"}
    return ImportedJob("old", "lab", name, at(begin - 1), at(begin), at(end), **{**told, **others})  # type: ignore[arg-type]


def point(begin: float, *, in_use: int = 3, **others: object) -> UsagePoint:
    return UsagePoint("old", "lab", at(begin), HOUR_MS // 2, Fraction(in_use), Fraction(8), **others)  # type: ignore[arg-type]


@pytest.fixture
def records(tables: Engine) -> ImportRecords:
    for name in ("imported_jobs", "imported_usage"):
        tables.command(f"TRUNCATE TABLE {name}")
    return ImportRecords(tables)


def test_jobs_come_back_and_the_same_again_touches_nothing(records: ImportRecords) -> None:
    told = [job("1", 0.5, 2.5), job("2", 2, 3, team=None, queue="q", state="FAILED")]
    assert records.put_jobs(told) == [at(0), at(1), at(2)]
    assert records.put_jobs(told) == []
    assert records.jobs_during(at(-9), at(9)) == told
    assert records.jobs_during(at(2.5), at(9)) == told[1:]
    assert records.put_jobs([]) == []


def test_a_job_that_is_told_otherwise_touches_what_it_was_and_what_it_is(records: ImportRecords) -> None:
    records.put_jobs([job("1", 0, 1), job("2", 0, 1)])
    assert records.put_jobs([job("1", 5, 6), job("2", 0, 1)]) == [at(0), at(5)]
    assert records.put_jobs([job("1", 5, 6, gpus=Fraction(2))]) == [at(5)]
    assert [(one.job, one.start_ms) for one in records.jobs_during(at(-9), at(9))] == [
        ("2", at(0)),
        ("1", at(5)),
    ]


def test_usage_comes_back_by_team_and_model(records: ImportRecords) -> None:
    told = [point(0.75), point(0.75, team=""), point(0.75, team="nlp"), point(0.75, model="V100"), point(1.5)]
    assert records.put_usage(told) == [at(0), at(1)]
    assert records.put_usage(told) == []
    assert set(records.usage_during(at(0), at(1))) == set(told[:4])
    assert records.put_usage([point(1.5, in_use=4)]) == [at(1)]
    assert [one.in_use for one in records.usage_during(at(1.5), at(2))] == [4]


def test_nothing_else_is_known_of_that_time(records: ImportRecords, tables: Engine) -> None:
    writer = RecordWriter(tables)
    machines = MachineRecords(tables, writer)
    source = LedgerFacts(tables, RunRecords(tables), machines, records, Ledger(tables))
    records.put_jobs([job("1", 0, 1)])
    found = source.facts(at(0), at(1))
    assert found.jobs == [job("1", 0, 1)]
    assert not (found.lives or found.bindings or found.machines or found.owners or len(found.minutes))
    assert source.first_ms() is None
    writer.close()


def test_an_import_after_a_clock_was_set_back_wins(
    records: ImportRecords, tables: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.put_jobs([job("1", 0, 1)])
    monkeypatch.setattr("trilens.store.imports.time.time_ns", lambda: 1_000)
    ImportRecords(tables).put_jobs([job("1", 3, 4)])
    assert [one.start_ms for one in ImportRecords(tables).jobs_during(at(-9), at(9))] == [at(3)]


def test_what_is_old_goes(records: ImportRecords) -> None:
    records.put_jobs([job("1", 0, 9), job("2", 5, 6)])
    records.put_jobs([job("1", 0, 1)])  # which must not come back as it was first told
    records.put_usage([point(0), point(5)])
    assert records.delete_before(at(2)) == 2
    assert [one.job for one in records.jobs_during(at(-9), at(19))] == ["2"]
    assert [one.t_ms for one in records.usage_during(at(-9), at(19))] == [at(5)]
