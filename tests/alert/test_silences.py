"""How many silences there may be: nobody leaves others without any."""

from __future__ import annotations

from itertools import count

import pytest

from trilens.alert.delivery import silences as module
from trilens.alert.delivery.outbox import Outbox
from trilens.alert.delivery.silences import Silences
from trilens.model.errors import RequestError

MINUTE = 60_000


@pytest.fixture
def silences(monkeypatch: pytest.MonkeyPatch) -> Silences:
    """Of which there may be five, three of one author."""
    monkeypatch.setattr(module, "_MOST", 5)
    monkeypatch.setattr(module, "_SHARE", 3)
    numbers = count()
    monkeypatch.setattr(module.uuid, "uuid4", lambda: type("Named", (), {"hex": f"{next(numbers):012}"}))
    return Silences(Outbox(None))


def add(silences: Silences, author: str, now_ms: int, lasts_ms: int = MINUTE) -> str:
    return silences.add(["a=b"], now_ms, now_ms + lasts_ms, author, "why", now_ms).id


def held(silences: Silences) -> list[str]:
    return sorted(one.id for one in silences.every())


def test_one_author_has_a_share(silences: Silences) -> None:
    for _ in range(3):
        add(silences, "fixer", 0)
    with pytest.raises(RequestError, match="fixer has 3 silences already"):
        add(silences, "fixer", 1)
    add(silences, "ada", 1)
    add(silences, "ada", 1)
    with pytest.raises(RequestError, match="there are 5 silences already"):
        add(silences, "bob", 1)


def test_those_that_are_over_make_room_the_oldest_first(silences: Silences) -> None:
    first, second = add(silences, "ada", 0, MINUTE), add(silences, "bob", 0, 2 * MINUTE)
    lasting = [add(silences, who, 0, 100 * MINUTE) for who in ("ada", "bob", "eve")]
    assert held(silences) == sorted([first, second, *lasting])
    new = add(silences, "eve", 10 * MINUTE, 100 * MINUTE)
    assert held(silences) == sorted([second, *lasting, new])


def test_an_author_loses_his_own_first(silences: Silences) -> None:
    """So that nobody wipes out what others did, by adding and ending."""
    others = add(silences, "ada", 0, MINUTE)
    own = [add(silences, "fixer", MINUTE) for _ in range(3)]
    for _ in range(4):
        own = [*own[1:], add(silences, "fixer", 10 * MINUTE, MINUTE)]
        silences.expire(own[-1], 10 * MINUTE)
        assert held(silences) == sorted([others, *own])
