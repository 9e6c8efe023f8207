"""Sums and episodes over hours and days, against a book that goes through all rows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_books import (
    DAY_MS,
    TRAIN,
    TRAINING,
    TUNE,
    TUNING,
    emptied,
    hour,
    hour_ms,
    ledger_engine,
    row,
)

from memory_book import MemoryBook
from trilens.model.errors import RequestError
from trilens.model.ledger import FLEET, HOUR_MS, Basis, Bucket, LedgerHour, LedgerRow
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.run import RunId
from trilens.store.ledger import Ledger
from trilens.store.ledger_sources import ALL_PAIRS, BY_DAY, PAIRED, PAIRS, days_table

if TYPE_CHECKING:
    from trilens.model.ledger_sums import Episode, Sum
    from trilens.store.engine import Engine

HOLDERS = (FLEET, TRAINING, TUNING, TUNING._replace(run=RunId("b"), team=None))


@dataclass
class Both:
    """The same hours in the store and in memory. Days have been made in between."""

    ledger: Ledger
    memory: MemoryBook

    def check(self, by: list[Dimension], window: Window) -> None:
        found = self.ledger.sums(by, window)
        assert _in_any_order(found) == _in_any_order(self.memory.sums(by, window)), (by, window)
        assert [one.quanta for one in found] == sorted((one.quanta for one in found), reverse=True)


def _in_any_order(sums: list[Sum] | list[Episode]) -> list[Sum] | list[Episode]:
    return sorted(sums, key=repr)


def rows() -> st.SearchStrategy[LedgerRow]:
    """Of four days; what is told of an episode is the same in all of it."""
    amounts = st.one_of(st.none(), st.integers(-(1 << 62), 1 << 62))

    def made(
        number: int, at: int, node: str, gpu: str, bucket: Bucket, since: int | None, amount: int | None
    ) -> LedgerRow:
        return row(
            number,
            HOLDERS[at],
            node=node,
            gpu=gpu,
            bucket=bucket,
            cause="free" if at == 0 else "steps",
            since_ms=since,
            step=since,
            basis=Basis.NONE if at == 2 else Basis.GPU,
            gpu_ms=abs(amount or 7) % 3_600_000,
            throttled_ms=abs(amount or 0) % 11,
            quanta=amount,
            currency="" if amount is None else ("USD", "EUR")[at % 2],
        )

    return st.builds(
        made,
        st.sampled_from([0, 7, 23, 24, 47, 48, 60, 71, 72]),
        st.integers(0, len(HOLDERS) - 1),
        st.sampled_from(["n1", "n2"]),
        st.sampled_from(["GPU-1", "GPU-2", ""]),
        st.sampled_from([Bucket.PRODUCTIVE, Bucket.STALLED, Bucket.UNALLOCATED]),
        st.sampled_from([None, 8320]),
        amounts,
    )


def as_hours(told: list[LedgerRow]) -> list[LedgerHour]:
    numbers = sorted({(one.hour_ms - hour_ms(0)) // HOUR_MS for one in told})
    return [hour(number, *(one for one in told if one.hour_ms == hour_ms(number))) for number in numbers]


@pytest.fixture(scope="module")
def week(tables: Engine) -> Both:
    """Some hours of four days, the last one open; days 0 and 1 are made, of which 1 was corrected since."""
    rng = random.Random(11)
    both = Both(Ledger(emptied(tables)), MemoryBook())
    hours = [
        hour(
            number,
            *(
                row(
                    number,
                    holder,
                    gpu=f"GPU-{gpu}",
                    node=f"n{gpu % 2}",
                    quanta=rng.randrange(1 << 40),
                    bucket=rng.choice([Bucket.PRODUCTIVE, Bucket.STALLED]),
                    throttled_ms=rng.randrange(9),
                )
                for holder in HOLDERS
                for gpu in range(3)
            ),
            upto=1.0 if number < 75 else 0.5,
        )
        for number in (0, 4, 5, 23, 24, 30, 47, 48, 71, 72, 75)
    ]
    for one in hours[:8]:
        both.ledger.write(one)
        both.memory.write(one)
    assert both.ledger.settle() == 2
    for one in (hour(30, row(30, TUNING, quanta=3)), *hours[8:]):
        both.ledger.write(one)
        both.memory.write(one)
    return both


def days_made(engine: Engine) -> list[int]:
    found = engine.query_arrow("SELECT day_ms FROM ledger_days_made FINAL ORDER BY day_ms")
    return [(day - hour_ms(0)) // DAY_MS for day in found["day_ms"].to_pylist()]


WINDOWS = {
    "whole days": (0, 72),
    "edges": (5, 71),
    "inside of a day": (3, 9),
    "one day": (24, 48),
    "with today": (0, 96),
    "nothing": (200, 300),
    "no time": (5, 5),
}


@pytest.mark.parametrize("hours", WINDOWS.values(), ids=WINDOWS)
def test_days_and_edges_come_to_what_hours_do(week: Both, hours: tuple[int, int]) -> None:
    window = Window(hour_ms(hours[0]), hour_ms(hours[1]))
    for by in ([Dimension.TEAM, Dimension.BUCKET], [Dimension.DAY], [Dimension.HOUR], []):
        week.check(by, window)


def test_days_are_made_of_what_counts(tables: Engine, week: Both) -> None:
    assert days_made(tables) == [0, 1]
    assert week.ledger.settle() == 2  # one again, and one that was not over before
    assert days_made(tables) == [0, 1, 2]
    week.check([Dimension.TEAM, Dimension.BUCKET], Window(hour_ms(0), hour_ms(96)))
    assert week.ledger.settle() == 0


@pytest.mark.parametrize("share", ["whole", "held", "fleet", "some"])
def test_each_two_dimensions_come_to_what_hours_do(week: Both, share: str) -> None:
    """Days have sums for these, in which only what nobody held is told from the rest."""
    among = {
        "whole": {},
        "held": {Dimension.BUCKET: tuple(one.value for one in Bucket if not one.is_fleet)},
        "fleet": {Dimension.BUCKET: tuple(one.value for one in Bucket if one.is_fleet)},
        "some": {Dimension.BUCKET: ("stalled", "broken", "unallocated")},
    }
    window = Window(hour_ms(0), hour_ms(60), among[share])
    for pair in combinations([one for one in Dimension if one in PAIRED], 2):
        if share == "whole" or Dimension.TEAM in pair:
            week.check([*pair], window)
    for one in (Dimension.TEAM, Dimension.BUCKET):
        week.check([one, Dimension.DAY], window)


def test_the_smallest_table_that_tells_it_is_read() -> None:
    held = {Dimension.BUCKET: tuple(one.value for one in Bucket if not one.is_fleet)}
    two = [Dimension.NAMESPACE, Dimension.EXPERIMENT]
    for by, where in (([], {}), (two, {}), (two, held), ([Dimension.TEAM, Dimension.DAY], held)):
        table = days_table(by, where)
        assert table is not None
        assert table.name == PAIRS, by
    stalled = {Dimension.BUCKET: ("stalled",)}
    for by, where in (([Dimension.WORKLOAD], {}), (two, stalled), ([*two, Dimension.TEAM], {})):
        assert days_table(by, where) is BY_DAY
    assert days_table([Dimension.HOUR], {}) is None


def keys(found: list[Sum]) -> set[object]:
    return {one.keys[0] for one in found}


@pytest.mark.parametrize(
    ("where", "teams"),
    [
        ({Dimension.TEAM: ("nlp",)}, {"nlp"}),
        ({Dimension.TEAM: (None,)}, {None}),
        ({Dimension.TEAM: (None, "vision")}, {None, "vision"}),
        ({Dimension.TEAM: ()}, set()),
        ({Dimension.WORKLOAD: ("train",)}, {"vision"}),
        ({Dimension.WORKLOAD: ("ml/train",)}, {"vision"}),
        ({Dimension.WORKLOAD: ("job/tune",)}, {"nlp", None}),
        ({Dimension.WORKLOAD: ("lab/web/Job/tune",), Dimension.RUN: (None,)}, {"nlp"}),
        ({Dimension.WORKLOAD: ("web/train",)}, set()),
        ({Dimension.WORKLOAD: (None,)}, {None}),
        ({Dimension.RUN: ("b' OR 1",)}, set()),
        ({Dimension.EXPERIMENT: ("lr",), Dimension.GPU: ("GPU-1",)}, {"vision"}),
        ({Dimension.DAY: (str(hour_ms(24)),), Dimension.TEAM: ("nlp",)}, {"nlp"}),
        ({Dimension.HOUR: (str(hour_ms(30)),)}, {"nlp"}),
        ({Dimension.BUCKET: ("broken",)}, set()),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_only_what_is_asked_for(
    week: Both, where: dict[Dimension, tuple[str | None, ...]], teams: set[str | None]
) -> None:
    window = Window(hour_ms(0), hour_ms(72), where)
    assert keys(week.ledger.sums([Dimension.TEAM], window)) == teams
    if Dimension.HOUR not in where:
        week.ledger.episodes(window)
        list(week.ledger.rows(window))


@pytest.mark.parametrize(
    "where", [{Dimension.WORKLOAD: ("a/b/c",)}, {Dimension.DAY: ("yesterday",)}], ids=["workload", "day"]
)
def test_what_names_nothing_is_said(week: Both, where: dict[Dimension, tuple[str | None, ...]]) -> None:
    with pytest.raises(RequestError):
        week.ledger.sums([Dimension.TEAM], Window(hour_ms(0), hour_ms(72), where))


def test_workloads_are_keys(week: Both) -> None:
    found = week.ledger.sums([Dimension.WORKLOAD], Window(hour_ms(0), hour_ms(72)))
    assert keys(found) == {TRAIN, TUNE, None}


def test_a_day_follows_its_hours(tables: Engine) -> None:
    ledger = Ledger(emptied(tables))
    for number in (3, 7, 24):
        ledger.write(hour(number, row(number)))
    assert ledger.settle() == 1
    assert ledger.write(hour(7, row(7, quanta=105))) == 1
    day = Window(hour_ms(0), hour_ms(24))
    for known in (ledger, Ledger(tables)):
        assert [one.quanta for one in known.sums([Dimension.TEAM], day)] == [110]
    assert ledger.settle() == 1
    for known in (ledger, Ledger(tables)):
        assert [one.quanta for one in known.sums([Dimension.TEAM], day)] == [110]
        assert known.settle() == 0
    assert int(tables.query_arrow("SELECT count() AS n FROM ledger_days")["n"][0].as_py()) == 1


def test_days_of_a_version_that_knew_no_pairs(tables: Engine) -> None:
    ledger = Ledger(emptied(tables))
    ledger.write_all([hour(number, row(number)) for number in (3, 7, 24)])
    ledger.settle()
    names = "day_ms, hours, written, stale"
    tables.command(
        f"INSERT INTO ledger_days_made ({names}, version) SELECT {names}, version + 1 FROM ledger_days_made"
    )
    tables.command("TRUNCATE TABLE ledger_day_pairs")
    day = Window(hour_ms(0), hour_ms(24))
    upgraded = Ledger(tables)
    assert [one.quanta for one in upgraded.sums([Dimension.TEAM], day)] == [10]
    assert upgraded.settle() == 1
    assert [one.quanta for one in upgraded.sums([Dimension.TEAM], day)] == [10]
    assert tables.query_arrow("SELECT 1 FROM ledger_day_pairs").num_rows == len(ALL_PAIRS)
    assert Ledger(tables).settle() == 0


def test_a_day_that_is_not_over_is_not_made(tables: Engine) -> None:
    ledger = Ledger(emptied(tables))
    ledger.write(hour(3, row(3)))
    assert ledger.settle() == 0
    ledger.write(hour(24, row(24), upto=0.2))
    assert ledger.settle() == 1


def test_an_episode_over_hours_and_days(tables: Engine) -> None:
    check_an_episode(Ledger(emptied(tables)))


def test_the_same_on_a_server(clickhouse_url: str) -> None:
    with ledger_engine(f"{clickhouse_url}/ledger_sums") as engine:
        check_an_episode(Ledger(engine))
        by_workload = Ledger(engine).sums(
            [Dimension.WORKLOAD, Dimension.DAY], Window(hour_ms(0), hour_ms(51))
        )
        assert keys(by_workload) == {TRAIN, None}
        assert sum(one.quanta for one in by_workload) == 120


def check_an_episode(ledger: Ledger) -> None:
    """Over hours and days, on two nodes."""
    since = hour_ms(20)
    for number in (20, 21, 24, 40, 48, 50, 51):
        stalled = [
            row(number, bucket=Bucket.STALLED, cause="no-step", since_ms=since, step=8320, node=node, gpu=gpu)
            for node, gpu in (("n1", "GPU-1"), ("n2", "GPU-2"))
        ]
        ledger.write(hour(number, *stalled, row(number, FLEET), row(number, FLEET, node="n2")))
    assert ledger.settle() == 2
    where = {Dimension.CAUSE: ("no-step",)}
    (found,) = ledger.episodes(Window(hour_ms(0), hour_ms(51), where))
    assert (found.bucket, found.workload, found.run, found.team) == (Bucket.STALLED, TRAIN, "a", "vision")
    assert (found.since_ms, found.first_ms, found.last_ms) == (since, hour_ms(20), hour_ms(50))
    assert (found.step, found.gpus, found.node) == (8320, 2, None)
    assert (found.gpu_ms, found.quanta, found.currency) == (12_000, 60, "USD")
    free = ledger.episodes(Window(hour_ms(0), hour_ms(51), {Dimension.BUCKET: ("unallocated",)}))
    assert sorted((one.node or "", one.gpus) for one in free) == [("n1", 1), ("n2", 1)]
    assert ledger.episodes(Window(hour_ms(0), hour_ms(51)), limit=1) == [found]


@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(rows(), min_size=20, max_size=60),
    st.integers(0, 30),
    st.integers(31, 96),
    st.lists(st.sampled_from([d for d in Dimension if d is not Dimension.DAY]), max_size=2, unique=True),
)
def test_sums_are_exact(
    tables: Engine, told: list[LedgerRow], first: int, last: int, by: list[Dimension]
) -> None:
    both = Both(Ledger(emptied(tables)), MemoryBook())
    for at, one in enumerate(as_hours(told)):
        both.ledger.write(one)
        both.memory.write(one)
        if at == 5:
            both.ledger.settle()
    window = Window(hour_ms(first), hour_ms(last))
    both.check(by, window)
    both.check([Dimension.DAY, *by], window)
    assert _in_any_order(both.ledger.episodes(window, limit=1_000)) == _in_any_order(
        both.memory.episodes(window, limit=1_000)
    )


def test_what_was_asked_before_is_not_read_again_until_something_is_booked(
    tables: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(tables)
    ledger, asked = Ledger(tables), []
    read = tables.query_arrow
    monkeypatch.setattr(tables, "query_arrow", lambda *args, **how: asked.append(args) or read(*args, **how))
    window = Window(hour_ms(0), hour_ms(3))
    ledger.write(hour(0, row(0)))
    asked.clear()
    first = ledger.sums([Dimension.BUCKET], window)
    assert ledger.sums([Dimension.BUCKET], window) == first
    assert len(asked) == 1
    ledger.write(hour(1, row(1)))
    (both,) = ledger.sums([Dimension.BUCKET], window)
    assert both.gpu_ms == 2 * first[0].gpu_ms
