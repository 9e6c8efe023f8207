"""The queue of notifications as another server finds it after this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.alert.delivery.outbox import Outbox, Told, Waiting
from trilens.model.errors import StoreError

if TYPE_CHECKING:
    import pytest


class Elsewhere:
    """A mirror in memory, as the store is one."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}
        self.is_away = False

    def load(self) -> list[tuple[str, str, str]]:
        return [(*place, body) for place, body in self.rows.items()]

    def put(self, rows: list[tuple[str, str, str | None]]) -> None:
        if self.is_away:
            raise StoreError("away")
        for kind, key, body in rows:
            if body is None:
                self.rows.pop((kind, key), None)
            else:
                self.rows[kind, key] = body


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


def test_what_it_did_not_take_is_told_by_who_looks_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be written for long: a sender looks every few seconds."""
    kept = Elsewhere()
    one = Outbox(None, kept)
    monkeypatch.setattr("trilens.alert.delivery.queue_file._MIRROR_AGAIN_S", 3_600.0)
    away_with(one, kept)
    kept.is_away = False
    one.due("hook", 5, 9)
    assert keys(kept) == ["i1", "i2"]  # not that soon
    monkeypatch.setattr("trilens.alert.delivery.queue_file._MIRROR_AGAIN_S", 0.0)
    kept.is_away = True
    one.forget([("hook", "i1")])
    one.put([message("i3")], 10)
    kept.is_away = False
    one.due("hook", 5, 9)
    assert keys(kept) == ["i2", "i3"]
    kept.is_away = True
    one.put([message("i5")], 10)
    kept.is_away = False
    one.close()
    assert keys(kept) == ["i2", "i3", "i5"]


def keys(kept: Elsewhere) -> list[str]:
    return sorted(msgspec.json.decode(key)[1] for _, key in kept.rows)
