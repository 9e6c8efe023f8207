"""The queue of notifications as another server finds it after this one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from servers import until
from trilens.alert.delivery.outbox import Outbox, Told, Waiting
from trilens.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

TELLER = "trilens.alert.delivery.mirror_teller"
LONG_S = 60.0  # what would hang is not waited for longer


class Elsewhere:
    """A mirror in memory, as the store is one."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}
        self.is_away = False
        self.was_asked, self.answers, self.has_taken = (threading.Event() for _ in range(3))
        self.answers.set()

    def load(self) -> list[tuple[str, str, str]]:
        return [(*place, body) for place, body in self.rows.items()]

    def put(self, rows: list[tuple[str, str, str | None]]) -> None:
        self.was_asked.set()
        self.answers.wait(LONG_S)
        if self.is_away:
            raise StoreError("away")
        for kind, key, body in rows:
            if body is None:
                self.rows.pop((kind, key), None)
            else:
                self.rows[kind, key] = body
        self.has_taken.set()


def message(key: str, body: bytes = b"\xff\x00 body") -> Waiting:
    return Waiting("hook", key, body, is_over=False, since_ms=1, due_ms=2)


def test_the_next_one_finds_what_waits_what_was_told_and_silences() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    one.put([message("i1"), message("i2")], 10)
    one.done(one.due("hook", 5, 1), [Told("hook", "i1", b"about")])
    one.put_silence("s", b"quiet")
    other = Outbox(None, kept)
    assert [found.key for found in other.due("hook", 5, 9)] == ["i2"]
    assert other.due("hook", 5, 9)[0].body == b"\xff\x00 body"
    assert other.told() == [Told("hook", "i1", b"about")]
    assert other.silences() == [b"quiet"]


def test_versions_go_on() -> None:
    kept = Elsewhere()
    Outbox(None, kept).put([message("i1"), message("i2")], 10)
    other = Outbox(None, kept)
    other.put([message("i3")], 10)
    assert sorted(one.version for one in other.due("hook", 5, 9)) == [1, 2, 3]


def test_what_leaves_is_not_found_again() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    one.put([message("i1")], 10)
    one.put_silence("s", b"quiet")
    one.withdraw("hook", "i1")
    one.drop_silence("s")
    one.keep_outlets(set())
    assert kept.rows == {}


def away_with(one: Outbox, kept: Elsewhere) -> None:
    one.put([message("i1"), message("i2")], 10)
    kept.is_away = True
    one.put([message("i3")], 10)
    one.done([found for found in one.due("hook", 5, 9) if found.key == "i1"])


def test_people_are_told_while_it_is_away() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    away_with(one, kept)
    assert [found.key for found in one.due("hook", 5, 9)] == ["i2", "i3"]
    assert keys(kept) == ["i1", "i2"]
    kept.is_away = False
    one.put([message("i4")], 10)
    assert keys(kept) == ["i2", "i3", "i4"]


def test_what_it_did_not_take_is_told_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be written for long."""
    monkeypatch.setattr(f"{TELLER}._AGAIN_S", 0.01)
    kept = Elsewhere()
    one = Outbox(None, kept)
    away_with(one, kept)
    kept.has_taken.clear()
    kept.is_away = False
    assert kept.has_taken.wait(LONG_S)
    assert keys(kept) == ["i2", "i3"]


def test_what_it_did_not_take_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{TELLER}._AGAIN_S", 3_600.0)
    kept = Elsewhere()
    one = Outbox(None, kept)
    away_with(one, kept)
    kept.is_away = False
    one.close()
    assert keys(kept) == ["i2", "i3"]


def test_of_what_changed_while_it_was_away_the_last_word_counts() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    kept.is_away = True
    one.put([message("i1", b"first")], 10)
    one.put([message("i1", b"second")], 10)
    kept.is_away = False
    one.put([message("i2")], 10)
    assert Outbox(None, kept).due("hook", 5, 9)[0].body == b"second"


def meanwhile(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_who_writes_waits_until_it_is_told() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    kept.answers.clear()
    writing = meanwhile(lambda: one.put([message("i1")], 10))
    assert kept.was_asked.wait(LONG_S)
    assert writing.is_alive()
    kept.answers.set()
    writing.join(LONG_S)
    assert keys(kept) == ["i1"]


def test_who_reads_does_not_wait_for_it() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    kept.answers.clear()
    meanwhile(lambda: one.put([message("i1")], 10))
    assert kept.was_asked.wait(LONG_S)
    found: list[str] = []
    reading = meanwhile(lambda: found.extend(each.key for each in one.due("hook", 5, 9)))
    reading.join(LONG_S / 2)
    assert found == ["i1"]
    kept.answers.set()


def test_one_that_says_nothing_holds_up_a_single_write(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    kept.answers.clear()
    monkeypatch.setattr(f"{TELLER}._ANSWERS_S", 0.01)
    one.put([message("i1")], 10)
    monkeypatch.setattr(f"{TELLER}._ANSWERS_S", 3_600.0)
    writing = meanwhile(lambda: one.put([message("i2")], 10))
    writing.join(LONG_S / 2)
    assert not writing.is_alive()
    assert [found.key for found in one.due("hook", 5, 9)] == ["i1", "i2"]
    assert keys(kept) == []
    kept.answers.set()
    one.close()
    assert keys(kept) == ["i1", "i2"]


def test_what_changes_while_it_is_told_is_told_after_that() -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    kept.answers.clear()
    writing = [meanwhile(lambda: one.put([message("i1", b"first")], 10))]
    assert kept.was_asked.wait(LONG_S)
    writing.append(meanwhile(lambda: one.put([message("i1", b"second")], 10)))
    until(lambda: one.due("hook", 5, 9)[0].body == b"second", "the second write waits for the first")
    kept.answers.set()
    for thread in writing:
        thread.join(LONG_S)
    assert Outbox(None, kept).due("hook", 5, 9)[0].body == b"second"


def test_a_defect_of_it_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Elsewhere()
    one = Outbox(None, kept)
    with monkeypatch.context() as broken:
        broken.setattr(kept, "rows", None)
        one.put([message("i1")], 10)
    one.put([message("i2")], 10)
    assert keys(kept) == ["i1", "i2"]


def keys(kept: Elsewhere) -> list[str]:
    return sorted(msgspec.json.decode(key)[1] for _, key in kept.rows)
