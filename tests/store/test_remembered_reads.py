"""What is read of tables that seldom change is remembered, and never older than what is written."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from trilens.model.event import EventKind, EventRecord
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.incident import Incident, IncidentState
from trilens.store.event_rows import EVENTS
from trilens.store.events import EventRecords
from trilens.store.findings import FindingRecords
from trilens.store.incidents import IncidentRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.remembered_answers import RememberedAnswers
from trilens.store.remembered_reads import RememberedReads
from trilens.store.schema import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.store.engine import Engine

EVENT = EventRecord("gpu-1", "line-1", HOUR_MS, EventKind.XID, 79, "gone", *[None] * 8, (), "ledger", 1)
FINDING = Finding("D004", FindingKind.THROTTLING, Subject(node="n"), Severity.WARNING, "", 0, "hot", "cool")
INCIDENT = Incident("one", IncidentState.OPEN, Severity.WARNING, "hot", Subject(), (), (), (), 0, 0)
_COUNT = f"SELECT number FROM {EVENTS.name} ORDER BY number"


class Read:
    """What is made of a row, so that a test sees how many there are."""


@pytest.fixture
def writer(engine: Engine) -> Iterator[RecordWriter]:
    writer = RecordWriter(engine)
    yield writer
    writer.close()


@pytest.fixture
def statements(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the engine was asked."""
    asked: list[str] = []
    ask = engine.query_arrow

    def noted(statement: str, **how: Any) -> Any:
        asked.append(statement)
        return ask(statement, **how)

    monkeypatch.setattr(engine, "query_arrow", noted)
    return asked


def numbers(reads: RememberedReads) -> list[int]:
    return reads.of(EVENTS.name, _COUNT, lambda row: int(row["number"]))


def tell(writer: RecordWriter, *events: EventRecord) -> EventRecords:
    records = EventRecords(writer._engine, writer)
    for event in events:
        records.event(event)
    assert writer.settled(60)
    return records


def test_it_is_read_once_until_something_is_written(
    engine: Engine, writer: RecordWriter, statements: list[str]
) -> None:
    reads = RememberedReads(engine)
    assert (numbers(reads), numbers(reads)) == ([], [])
    assert len(statements) == (1 if engine.embedded else 2)
    tell(writer, EVENT)
    assert numbers(reads) == [1]
    tell(writer, replace(EVENT, id="line-2", number=2))
    assert numbers(reads) == [1, 2]
    engine.command(f"DELETE FROM {EVENTS.name} WHERE number = 1")
    assert numbers(reads) == [2]


def test_what_was_read_before_something_was_written_is_let_go(writer: RecordWriter) -> None:
    if not writer._engine.embedded:
        pytest.skip("nothing is remembered of a cluster")
    reads = RememberedReads(writer._engine)
    kept: weakref.WeakSet[Read] = weakref.WeakSet()

    def made(row: dict[str, Any]) -> Read:
        kept.add(found := Read())
        return found

    for number in range(1, 5):
        tell(writer, replace(EVENT, id=f"line-{number}", number=number))
        for _ in range(2):
            reads.of(EVENTS.name, _COUNT, made)
    gc.collect()
    assert len(kept) == 4, "the last answer alone, and not those before it"


def test_all_tables_share_one_room(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """And the least lately asked goes first, of whichever table."""
    if not engine.embedded:
        pytest.skip("nothing is remembered of a cluster")
    large = f"SELECT number FROM numbers(1000) -- {EVENTS.name}"
    monkeypatch.setattr("trilens.store.remembered_reads._BYTES", 100_000)
    reads = RememberedReads(engine)
    for table in ("events", "findings", "incidents", "events"):
        reads.of(table, f"{large} {table}", lambda row: int(row["number"]))
    assert len(statements) == 4, "of three tables two have room: 8 kB of numbers are 40 kB as objects"


def test_who_gets_an_answer_may_change_it(engine: Engine) -> None:
    reads = RememberedReads(engine)
    numbers(reads).append(7)
    numbers(reads).append(7)
    assert numbers(reads) == []


def test_a_read_that_fails_is_not_remembered(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = RememberedReads(engine)
    with monkeypatch.context() as broken:
        broken.setattr(engine, "query_arrow", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            numbers(reads)
    assert numbers(reads) == []


def test_spans_are_exact_though_whole_hours_are_read(writer: RecordWriter, statements: list[str]) -> None:
    """Both ends included, with something just outside of each."""
    engine = writer._engine
    at_ms = (HOUR_MS, HOUR_MS + 1, HOUR_MS + 2, HOUR_MS + 3)
    events = tell(writer, *(replace(EVENT, id=str(t), t_ms=t, number=t) for t in at_ms))
    findings, incidents = FindingRecords(engine, writer), IncidentRecords(engine, writer)
    for t in at_ms:
        short = replace(FINDING, onset_ms=t, subject=Subject(node=str(t)))
        findings.put([FindingInterval(short, t, t, t)])
        incidents.put([replace(INCIDENT, id=str(t), onset_ms=t, resolved_ms=t)])
    assert writer.settled(60)
    first, last = at_ms[1], at_ms[2]
    for _ in range(2):
        assert [one.t_ms for one in events.between(first, last, limit=9)] == [last, first]
        assert [one.detected_ms for one in findings.during(first, last)] == [first, last]
        assert [one.onset_ms for one in incidents.during(first, last)] == [last, first]
        assert [one.onset_ms for one in incidents.during(first, last, limit=9)] == [last, first]
    spans = [one for one in statements if "BETWEEN" in one or "onset_ms <=" in one]
    assert len(spans) == (4 if engine.embedded else 8)


def test_the_latest_of_a_span_are_exact_though_later_ones_fill_the_hour(writer: RecordWriter) -> None:
    at_ms = range(HOUR_MS, HOUR_MS + 5)
    events = tell(writer, *(replace(EVENT, id=str(t), t_ms=t, number=t) for t in at_ms))
    incidents = IncidentRecords(writer._engine, writer)
    incidents.put([replace(INCIDENT, id=str(t), onset_ms=t) for t in at_ms])
    assert writer.settled(60)
    assert [one.t_ms for one in events.between(0, HOUR_MS + 1, limit=2)] == [HOUR_MS + 1, HOUR_MS]
    assert [one.onset_ms for one in incidents.during(0, HOUR_MS + 1, limit=2)] == [HOUR_MS + 1, HOUR_MS]


def test_what_is_forgotten_while_it_is_read_is_not_kept() -> None:
    memory = RememberedAnswers(8, 8)

    def read() -> tuple[list[str], int]:
        memory.forget()
        return ["wrong"], 2

    assert memory.weighed("a", read) == ["wrong"]
    assert memory.weighed("a", lambda: (["right"], 2)) == memory.weighed("a", read) == ["right"]


def test_memory_has_an_end() -> None:
    memory = RememberedAnswers(8, 4)
    reads: list[str] = []

    def ask(question: str, lines: int = 3) -> None:
        def read() -> tuple[list[str], int]:
            reads.append(question)
            return [question] * lines, 1 + lines

        assert memory.weighed(question, read) == [question] * lines

    ask("large", 4)
    ask("large", 4)
    for question in "abac":  # the third takes the place of the one that was not asked for longest
        ask(question)
    assert reads == ["large", "large", "a", "b", "c"]
    for question in "acb":
        ask(question)
    assert reads[5:] == ["b"]
