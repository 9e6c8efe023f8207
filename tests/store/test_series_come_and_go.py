"""Series leave memory and come back: nothing may show but the memory that is free."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from coming_and_going import BEGIN, DAY, HOUR, Held, append, evict, expected, open_store, power, read
from reopening import reopening

from long_form import rounds
from trilens.model.errors import ConfigError, PromQLEvalError, QueryTooLarge, StoreError
from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import STALE_NAN, SelectRequest, stale_mask
from trilens.promql.engine import Engine
from trilens.store.archive import Archive
from trilens.store.index import series_id
from trilens.store.residents import LINGER_S
from trilens.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trilens.model.series import Selected
    from trilens.promql.result import QueryResult
    from trilens.store.store import Store

MATCHERS = (
    Matcher(METRIC_NAME, "=", "power"),
    Matcher(METRIC_NAME, "=", "heat"),
    Matcher(METRIC_NAME, "=~", "power|heat"),
    Matcher("gpu", "=", "1"),
    Matcher("gpu", "!=", "1"),
    Matcher("gpu", "=~", "[12]"),
    Matcher("pod", "!~", "pod-[0-4].*"),
    Matcher("pod", "=", ""),
    Matcher("pod", "=", 'it\'s \\n "x"\n'),
)


class Churn:
    """Random steps on a store, and the plainest model of what it should hold."""

    def __init__(self, location: str | Path, seed: int) -> None:
        self._location = location
        self.random = random.Random(seed)
        self.now = BEGIN
        self.model: Held = {}
        self.left = 0
        self.store = open_store(location)

    def step(self) -> None:
        what = self.random.choice(["scrape"] * 5 + ["wait", "evict", "evict", "backfill", "merge", "restart"])
        getattr(self, what)()

    def scrape(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.now += self.random.choice([15_000, HOUR // 4])
            chosen = {self._labels(): self.random.random() for _ in range(self.random.randint(1, 12))}
            append(self.store, self.now, chosen)
            for labels, value in chosen.items():
                self.model.setdefault(labels, []).append((self.now, value))

    def wait(self) -> None:
        self.now += self.random.choice([HOUR, 20 * HOUR, 50 * HOUR])

    def evict(self) -> None:
        self.left += evict(self.store)

    def backfill(self) -> None:
        series = [self._labels() for _ in range(3)]
        owner = np.array([0, 1, 1, 2])
        t = np.array([self.now - self.random.randrange(1, 20 * DAY) for _ in owner])
        values = np.array([self.random.random() for _ in owner])
        self.store.backfill(series, owner, t, values)
        for i, at, value in zip(owner.tolist(), t.tolist(), values.tolist(), strict=True):
            if at not in [known for known, _ in self.model.get(series[i], [])]:
                self.model.setdefault(series[i], []).append((at, value))

    def merge(self) -> None:
        """Of several rows of a series the engine keeps one, at a time of its own choosing."""
        for table in ("series", "activity"):
            self.store._engine.command(f"OPTIMIZE TABLE {table} FINAL")

    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self._location)

    def check(self) -> None:
        start = self.now - self.random.randrange(1, 15 * DAY)
        end = start + self.random.choice([HOUR, DAY, 30 * DAY])
        matchers = self.random.sample(MATCHERS, self.random.randint(1, 3))
        wanted = expected(self.model, start, end, matchers)
        assert read(self.store, start, end, *matchers) == wanted
        self._check_catalog(start + 1, end, tuple(matchers))

    def _check_catalog(self, start: int, end: int, matchers: tuple[Matcher, ...]) -> None:
        """A series has to be listed where it has samples, and may be in a gap between them."""
        has = set(expected(self.model, start - 1, end, matchers))
        spans = {labels: (min(samples)[0], max(samples)[0]) for labels, samples in self.model.items()}
        alive: Held = {labels: [(start, 0.0)] for labels, (a, b) in spans.items() if b >= start and a <= end}
        may = set(expected(alive, start - 1, end, matchers))
        listed = self.store.series_labels(matchers, start, end)
        found = [make_labels(listed.labels(i)) for i in range(len(listed))]
        assert len(found) == len(set(found))
        assert has <= set(found) <= may
        names = set(self.store.label_names(matchers, start, end))
        assert _names(has) <= names <= _names(may)
        pods = set(self.store.label_values("pod", matchers, start, end))
        assert _pods(has) <= pods <= _pods(may)

    def _labels(self) -> Labels:
        metric = self.random.choice(["power", "power", "heat"])
        day = (self.now - BEGIN) // DAY
        pod = self.random.choice(["", 'it\'s \\n "x"\n', f"pod-{day}-{self.random.randint(0, 2)}"])
        return make_labels({METRIC_NAME: metric, "gpu": str(self.random.randint(0, 3)), "pod": pod})


def _names(series: set[Labels]) -> set[str]:
    return {name for labels in series for name, _ in labels}


def _pods(series: set[Labels]) -> set[str]:
    return {value for labels in series for name, value in labels if name == "pod"}


@pytest.mark.hunt
@pytest.mark.parametrize("seed", [1])
def test_a_store_that_forgets_answers_as_one_that_does_not(location: str | Path, seed: int) -> None:
    churn = Churn(location, seed)
    try:
        for _ in range(rounds(short=60, long=300)):
            churn.step()
            churn.check()
        assert churn.left > 20
        assert len(churn.store._index) < len(churn.model)
    finally:
        churn.store.close()


@pytest.fixture
def reopen(location: str | Path) -> Iterator[Callable[..., Store]]:
    with reopening(partial(open_store, location)) as again:
        yield again


def week(store: Store) -> None:
    """Two pods a day, one after the other, and a series that is always there."""
    for hour in range(7 * 24):
        t = BEGIN + hour * HOUR
        append(store, t, {power("0", "steady"): hour, power("1", f"pod-{hour // 12}"): hour})


LAST_WEEK = (
    'power{pod="pod-3"}',
    "sum(power)",
    "sum by (pod) (max_over_time(power[6h]))",
    "power - on(gpu) group_left() count by (gpu) (power)",
)


def values_of(store: Store, query: str) -> list[tuple[dict[str, str], list[str]]]:
    found = Engine(store).range(query, BEGIN + 30 * HOUR, BEGIN + 60 * HOUR, HOUR, QueryGuard())
    there = np.ones(found.values.shape, bool) if found.present is None else found.present
    shown = np.where(there, found.values.astype(str), "")
    return [(found.labels.labels(i), shown[i].tolist()) for i in range(len(found.labels))]


def test_last_weeks_series_are_found_as_before(reopen: Callable[..., Store]) -> None:
    store = reopen()
    week(store)
    ranges = [
        (BEGIN - 1, BEGIN + 7 * DAY),
        (BEGIN + DAY, BEGIN + 2 * DAY),
        (BEGIN + 6 * DAY, BEGIN + 7 * DAY),
    ]
    one = (Matcher(METRIC_NAME, "=", "power"), Matcher("pod", "=", "pod-3"))
    before = [read(store, *r) for r in ranges] + [read(store, *r, *one) for r in ranges]
    drawn = [values_of(store, query) for query in LAST_WEEK]
    assert evict(store) == 10
    assert len(store._index) == 5
    assert [read(store, *r) for r in ranges] + [read(store, *r, *one) for r in ranges] == before
    assert [values_of(store, query) for query in LAST_WEEK] == drawn
    assert all(drawn)
    pods = store.label_values("pod", None, BEGIN + DAY, BEGIN + DAY + 1)
    assert pods == ["pod-2", "steady"]


def test_names_of_metrics_that_have_left_memory_are_known(reopen: Callable[..., Store]) -> None:
    store = reopen()
    append(store, BEGIN, {make_labels({METRIC_NAME: "fans", "gpu": "0"}): 1})
    week(store)
    evict(store)
    assert not len(store._index.state.refs_of_metric("fans"))
    assert store.label_values(METRIC_NAME, None, 0, 1 << 48) == ["fans", "power"]
    assert store.label_values(METRIC_NAME, None, 0, BEGIN) == ["fans", "power"]
    assert store.label_values(METRIC_NAME, None, BEGIN + DAY, 1 << 48) == ["power"]
    append(store, BEGIN + 7 * DAY, {make_labels({METRIC_NAME: "watts"}): 1})  # maybe not on disk yet
    assert store.label_values(METRIC_NAME, None, 0, 1 << 48) == ["fans", "power", "watts"]


def test_a_restart_takes_only_what_is_recent(reopen: Callable[..., Store]) -> None:
    week(reopen())
    store = reopen()
    assert len(store._index) == 5
    assert len(read(store, BEGIN - 1, BEGIN + 7 * DAY)) == 15
    assert reopen(series_in_memory=timedelta(days=100)).stats().series == 15


def test_a_series_that_comes_back_goes_on(reopen: Callable[..., Store]) -> None:
    store = reopen()
    append(store, BEGIN, {power("1"): 1.0, power("2"): 2.0})
    append(store, BEGIN + 1000, {power("1"): STALE_NAN})
    append(store, BEGIN + 3 * DAY, {power("2"): 2.0})
    assert evict(store) == 1
    gone = store._index.ids[store._index.references.living()].tolist()
    assert series_id(power("1")) not in gone
    append(store, BEGIN + 4 * DAY, {power("1"): 3.0})
    store.durable().result()
    one = Matcher("gpu", "=", "1")
    for reopened in (False, True):
        held = reopen() if reopened else store
        found = read(held, BEGIN - 1, BEGIN + 5 * DAY, one)[power("1")]
        assert [t - BEGIN for t, _ in found] == [0, 1000, 4 * DAY]
        assert stale_mask(np.array([v for _, v in found])).tolist() == [False, True, False]
        assert len(held.series_labels((one,), BEGIN, BEGIN + 5 * DAY)) == 1
        # A restart must not take the series for one that began when it came back.
        assert len(held.series_labels((one,), BEGIN, BEGIN + 1)) == 1


def test_history_of_a_series_that_left_keeps_what_was_known(reopen: Callable[..., Store]) -> None:
    store = reopen()
    append(store, BEGIN, {power("1"): 1.0})
    append(store, BEGIN + 5 * DAY, {power("2"): 2.0})
    assert evict(store) == 1
    store.backfill([power("1")], np.zeros(1, np.int64), np.array([BEGIN - 9 * DAY]), np.array([0.5]))
    # On disk at once: the row that the engine keeps must count in those that it drops.
    store._engine.command("OPTIMIZE TABLE activity FINAL")
    saved = store._engine.query_arrow(
        f"SELECT first_t, last_t FROM activity WHERE series = {series_id(power('1'))}"
    ).to_pylist()
    assert saved == [{"first_t": BEGIN - 9 * DAY, "last_t": BEGIN}]
    for reopened in (False, True):
        held = reopen() if reopened else store
        for at in (BEGIN - 9 * DAY, BEGIN):
            assert list(read(held, at - 1, at + 1)) == [power("1")]
        evict(held)


def test_samples_for_a_series_that_left_are_refused(reopen: Callable[..., Store]) -> None:
    store = reopen()
    append(store, BEGIN, {power("1"): 1.0})
    old = np.array([store.series(power("1"))], np.int64)
    append(store, BEGIN + 3 * DAY, {power("2"): 2.0})
    assert store.held(old).tolist() == [True]
    evict(store)
    assert store.held(old).tolist() == [False]
    with pytest.raises(StoreError, match="left memory"):
        store.append(old, np.array([BEGIN + 3 * DAY]), np.ones(1))
    append(store, BEGIN + 3 * DAY, {power("3"): 3.0})  # takes the free reference
    assert store.held(old).tolist() == [False]
    assert store._index.references.count == 2


def test_what_was_asked_for_lately_stays(reopen: Callable[..., Store]) -> None:
    store = reopen()
    week(store)
    evict(store)
    read(store, BEGIN, BEGIN + DAY)
    assert len(store._index) == 8
    began = time.monotonic()
    for minutes in (10, 20, 30):  # asked again and again, which needs no more reading
        store._residents._clock = lambda minutes=minutes: began + minutes * 60
        read(store, BEGIN, BEGIN + DAY)
        assert store.evict_series() == 0
    store._residents._clock = lambda: began + 50 * 60
    assert store.evict_series() == 3


def test_a_range_is_read_from_disk_once(
    reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reopen()
    week(store)
    evict(store)
    asked: list[int] = []
    matching = Archive.matching

    def counted(
        self: Archive, matchers: Sequence[Matcher], start: int, end: int, guard: QueryGuard
    ) -> object:
        asked.append(start)
        return matching(self, matchers, start, end, guard)

    monkeypatch.setattr(Archive, "matching", counted)
    now = BEGIN + 7 * DAY
    for minute in range(3):  # a panel that slides on
        read(store, BEGIN + DAY + minute * 60_000, now + minute * 60_000)
    assert len(asked) == 1
    read(store, now - HOUR, now)
    assert len(asked) == 1, "memory has all that is recent"
    read(store, BEGIN, now)
    assert len(asked) == 2, "further back than before"
    evict(store)
    read(store, BEGIN + DAY, now)
    assert len(asked) == 3, "what was read has left again"


def test_a_rule_that_looks_a_week_back_reads_the_disk_once_in_an_hour(
    reopen: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reopen()
    append(store, BEGIN, {power("0"): 1.0})
    append(store, BEGIN + 7 * DAY, {power("1"): 1.0})
    assert evict(store) == 1
    reads = []
    matching = Archive.matching

    def counted(self: Archive, *given: Any) -> Any:
        reads.append(given)
        return matching(self, *given)

    monkeypatch.setattr(Archive, "matching", counted)
    for k in range(60):
        assert read(store, BEGIN - 1 + k * 60_000, BEGIN + HOUR + k * 60_000) or k
    assert len(reads) == 1


def test_a_late_sample_from_before_the_first_is_found_after_its_series_left(
    reopen: Callable[..., Store],
) -> None:
    store = reopen(out_of_order=timedelta(hours=2))
    append(store, BEGIN + HOUR, {power("0"): 1.0})
    store.durable().result()
    store._upkeep.save_activity()
    append(store, BEGIN, {power("0"): 0.0})
    append(store, BEGIN + 5 * DAY, {power("1"): 1.0})
    assert evict(store) == 1
    assert read(store, BEGIN - 1, BEGIN + 1) == {power("0"): [(BEGIN, 0.0)]}


def test_more_series_than_a_query_may_take_are_refused(reopen: Callable[..., Store]) -> None:
    store = reopen()
    week(store)
    evict(store)
    request = SelectRequest((Matcher(METRIC_NAME, "=", "power"),), BEGIN, BEGIN + 5 * DAY)
    with pytest.raises(QueryTooLarge, match="series; the limit is 3"):
        store.select(request, QueryGuard(max_series=3))
    with pytest.raises(PromQLEvalError, match="bad regular expression"):
        read(store, BEGIN, BEGIN + DAY, Matcher("pod", "=~", "("))
    assert len(read(store, BEGIN, BEGIN + 5 * DAY)) > 3


def test_series_of_which_nothing_is_left_are_deleted(reopen: Callable[..., Store]) -> None:
    store = reopen(retention_5m=timedelta(days=1), retention_1h=timedelta(days=1))
    week(store)
    append(store, BEGIN + 12 * DAY, {power("0", "steady"): 1.0})
    evict(store)
    read(store, BEGIN, BEGIN + 7 * DAY, Matcher("pod", "=", "pod-0"))  # in memory while the disk forgets it
    upkeep = store._upkeep
    upkeep._retention = Retention(*[timedelta(days=40)] * 4)
    assert upkeep.delete_expired_series() == 0, "samples are still there"
    store._engine.command(
        f"ALTER TABLE samples DELETE WHERE t < {BEGIN + 5 * DAY} SETTINGS mutations_sync = 1"
    )
    assert upkeep.delete_expired_series() == 10
    left = store._engine.query_arrow("SELECT uniqExact(series) AS n FROM series")["n"][0].as_py()
    known = store._engine.query_arrow("SELECT uniqExact(series) AS n FROM activity")["n"][0].as_py()
    assert (left, known) == (5, 5)
    append(store, BEGIN + 12 * DAY + 1, {power("1", "pod-0"): 9.0})
    store = reopen()
    assert power("1", "pod-0") in read(store, BEGIN + 12 * DAY, BEGIN + 13 * DAY), "its labels came again"


def test_series_must_stay_longer_than_late_samples_are_taken(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="48 h is not more than 72 h"):
        open_store(tmp_path / "data", out_of_order=timedelta(hours=72))


def test_late_samples_before_a_crash_are_known_after_it(location: str | Path) -> None:
    """Activity was saved; then a sample came that is older than its series' first, and nothing was saved."""
    store = open_store(location, out_of_order=timedelta(hours=5))
    append(store, BEGIN, {power("1"): 1.0})
    store._upkeep.save_activity()
    append(store, BEGIN - HOUR // 2, {power("1"): 0.5})
    store._upkeep.save_activity = lambda: None  # type: ignore[method-assign]
    store.close()
    store = open_store(location)
    try:
        assert len(store.series_labels((Matcher("gpu", "=", "1"),), BEGIN - HOUR, BEGIN - HOUR // 2)) == 1
    finally:
        store.close()


def test_intake_and_queries_go_on_while_series_leave(reopen: Callable[..., Store]) -> None:
    """Minutes pass between scrapes, never inside of one: a series that is resolved may leave in these, and
    whoever appends to it then is told to resolve it again."""
    store = reopen()
    rounds, failures, done = 60, [], threading.Event()
    passed_s, between_scrapes = 0.0, threading.Lock()
    store._residents._clock = lambda: time.monotonic() + passed_s
    append(store, BEGIN, {power("0", "steady"): 0.0})

    def guarded(work: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as e:
            failures.append(e)
            done.set()

    def ask() -> None:
        """All of a pod's samples, or none yet; and each series under its own labels."""
        found = read(store, BEGIN - 1, BEGIN + rounds * DAY)
        for labels, samples in found.items():
            pod = dict(labels)["pod"]
            if pod != "steady":
                day = int(pod.removeprefix("pod-"))
                assert {(t - BEGIN) // DAY for t, _ in samples} == {day}
                assert {v for _, v in samples} == {float(day)}

    def let_go() -> None:
        nonlocal passed_s
        store.durable().result()
        with between_scrapes:
            passed_s += 2 * LINGER_S
        store.evict_series()

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (ask, ask, let_go)]
    for thread in threads:
        thread.start()
    try:
        for day, k in product(range(rounds), range(3)):
            scraped = {power(str(g), f"pod-{day}"): float(day) for g in range(20)}
            with between_scrapes:
                append(store, BEGIN + day * DAY + 1 + k, {power("0", "steady"): 0.0, **scraped})
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    let_go()
    assert len(store._index) < 20 * rounds
    assert len(read(store, BEGIN - 1, BEGIN + rounds * DAY)) == 20 * rounds + 1


def test_a_query_in_two_halves_matches_across_an_eviction(reopen: Callable[..., Store]) -> None:
    """The second selector is read after symbols have changed their codes; labels still match."""
    store = reopen()
    week(store)
    halves: list[int] = []

    class Interrupted:
        symbols = property(lambda _: store.symbols)
        grid = staticmethod(lambda *_: None)

        def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
            if halves:
                evict(store)
            found = store.select(request, guard)
            halves.append(id(found.labels.symbols))
            return found

    at = BEGIN + 7 * DAY - HOUR
    query = f'power{{gpu="1"}} + on(pod) power{{pod!="steady"}} or power offset {3 * 24}h'
    whole = Engine(store).instant(query, at, QueryGuard())
    parts = Engine(Interrupted()).instant(query, at, QueryGuard())
    assert len(set(halves)) > 1
    assert len(whole.labels) == 3

    def shown(result: QueryResult) -> list[tuple[dict[str, str], float]]:
        rows = range(len(result.labels))
        return sorted(((result.labels.labels(i), float(result.values[i, 0])) for i in rows), key=str)

    assert shown(parts) == shown(whole)
