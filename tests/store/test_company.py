"""Two servers on one ClickHouse notice each other, and one that is started again notices nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import pytest

from trilens.model.errors import StoreError
from trilens.store import upkeep
from trilens.store.company import Company
from trilens.store.disks import find_disks, find_syncs

if TYPE_CHECKING:
    from conftest import SharedEngines
    from trilens.store.engine import Engine


@pytest.fixture
def on_a_server(shared_engines: SharedEngines) -> Engine:
    return shared_engines.emptied("server")


def test_two_that_work_see_each_other(on_a_server: Engine) -> None:
    one, other = Company(on_a_server), Company(on_a_server)
    for each in (one, other, one, other):
        each.look()
    assert one.found == other.found == f"another server works on {on_a_server.where}"
    for _ in range(2):  # the other one has ended
        one.look()
    assert one.found is None


def test_one_that_was_killed_and_starts_again_is_alone(on_a_server: Engine) -> None:
    Company(on_a_server).look()
    again = Company(on_a_server)
    for _ in range(3):
        again.look()
        assert again.found is None


def test_a_directory_has_a_lock(embedded: Engine) -> None:
    for each in (Company(embedded), Company(embedded)) * 2:
        each.look()
        assert each.found is None


def test_the_room_that_a_server_has(on_a_server: Engine, embedded: Engine) -> None:
    [disk] = find_disks(on_a_server)
    assert 0 < disk.free_bytes <= disk.size_bytes
    assert find_disks(embedded) == ()


def test_the_room_is_known_where_how_long_it_took_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_engine: object) -> NoReturn:
        raise StoreError("not enough privileges for system.events")

    monkeypatch.setattr(upkeep, "find_disks", lambda _engine: ("a disk",))
    monkeypatch.setattr(upkeep, "find_syncs", refused)
    looking = SimpleNamespace(_engine=None, disks=(), syncs=("of before",))
    with pytest.raises(StoreError):
        upkeep.Upkeep.look_at_disks(looking)  # type: ignore[arg-type]
    assert (looking.disks, looking.syncs) == (("a disk",), ())


def test_how_long_disks_took_to_keep_something(on_a_server: Engine, embedded: Engine) -> None:
    for engine in (on_a_server, embedded):
        before = sum(one.times for one in find_syncs(engine))
        Company(engine).look()
        engine.command(
            "CREATE TABLE kept (a Int64) ENGINE = MergeTree ORDER BY a SETTINGS fsync_after_insert = 1"
        )
        engine.command("INSERT INTO kept VALUES (1)")
        [syncs] = find_syncs(engine)
        assert syncs.times > before
        assert syncs.seconds > 0
        assert bool(syncs.host) is not engine.embedded
