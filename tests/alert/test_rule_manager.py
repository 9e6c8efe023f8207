"""When groups are evaluated, and what becomes of them when the files change."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rules_at_work import groups
from trilens.alert.manager import RuleManager
from trilens.alert.schedule import Schedule
from trilens.model.errors import StoreReadOnly
from trilens.model.labels import make_labels

if TYPE_CHECKING:
    import pytest

    from rules_at_work import Fleet

STEP = 60_000


def text(*rules: tuple[str, str], name: str = "g", interval: str = "1m") -> str:
    lines = "".join(f"  - {{record: '{record}', expr: '{expr}'}}\n" for record, expr in rules)
    return f"groups:\n- name: {name}\n  interval: {interval}\n  rules:\n{lines}"


def test_moments_do_not_depend_on_when_one_looks_and_differ_between_groups() -> None:
    schedules = [Schedule.of(groups(text(name=f"g{k}"))[0]) for k in range(20)]
    assert len({schedule.offset_ms for schedule in schedules}) > 15
    for schedule in schedules:
        following = schedule.after(1_700_000_000_000)
        assert 1_700_000_000_000 < following <= 1_700_000_060_000
        assert schedule.after(following - 1) == following
        assert schedule.after(following) == following + STEP
    assert Schedule.of(groups(text(), "a.yml")[0]) != Schedule.of(groups(text(), "b.yml")[0])


def test_a_late_group_is_evaluated_once_and_counts_what_it_missed(fleet: Fleet) -> None:
    manager = fleet.rules(*groups(text(("missed:one", "1"))))
    (state,) = manager.states()
    assert manager.take_due(fleet.now_ms) == []
    first = state.schedule.after(fleet.now_ms)
    assert manager.take_due(first - 1) == []
    assert manager.take_due(first) == [(state, first)]
    assert manager.take_due(first + STEP) == []  # it is still at work
    assert state.iterations_missed == 1
    manager.evaluate(state, first)
    assert manager.take_due(first + 4 * STEP + 5) == [(state, first + 4 * STEP)]
    assert state.iterations_missed == 1 + 2


def test_series_of_a_removed_rule_end_and_a_changed_rule_keeps_its_own(fleet: Fleet) -> None:
    at = fleet.now_ms
    manager = RuleManager(
        groups(text(("reload:a", "vector(1)"), ("reload:b", "vector(1)"))),
        fleet.store,
        fleet.store,
        now_ms=lambda: at + 1000,
    )
    fleet.run(manager, at)
    manager.reload(groups(text(("reload:b", 'label_replace(vector(2), "x", "y", "", "")'), name="other")))
    shown = fleet.shows('{__name__=~"reload:.*"}', at + 1000)
    assert shown == {make_labels({"__name__": "reload:b"}): 1}  # until its rule's next pass
    fleet.run(manager, at + STEP)
    shown = fleet.shows('{__name__=~"reload:.*"}', at + STEP)
    assert shown == {make_labels({"__name__": "reload:b", "x": "y"}): 2}


def test_a_group_that_did_not_change_goes_on(fleet: Fleet) -> None:
    one, other = groups(text(("keep:one", "1")))[0], groups(text(("keep:two", "2"), name="two"))[0]
    manager = fleet.rules(one, other)
    fleet.run(manager, fleet.now_ms)
    before = manager.states()
    changed = groups(text(("keep:two", "3"), name="two"))[0]
    manager.reload([changed, one])
    after = manager.states()
    assert [state.group for state in after] == [changed, one]
    assert after[1] is before[0]
    assert after[0].last_evaluation_ms is None


def test_a_reload_does_not_wait_for_groups_that_a_stop_keeps_from_running(fleet: Fleet) -> None:
    """They had been taken, and no thread was free for them."""
    manager = fleet.rules(*groups(text(("never:one", "1"))))
    (state,) = manager.states()
    state.due_ms = fleet.now_ms
    assert manager.take_due(fleet.now_ms)
    reload = threading.Thread(target=manager.reload, args=[groups(text(("never:two", "2")))], daemon=True)
    reload.start()
    manager.stop()
    reload.join(timeout=10)
    assert not reload.is_alive()


def test_series_of_a_removed_rule_end_later_when_the_store_would_not(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = fleet.now_ms
    manager = RuleManager(
        groups(text(("later:a", "vector(1)"))), fleet.store, fleet.store, now_ms=lambda: at + 1000
    )
    fleet.run(manager, at)

    def refuse(*_: object) -> None:
        raise StoreReadOnly("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(fleet.store, "append", refuse)
        manager.reload(groups(text(("later:b", "vector(1)"), name="other")))
    assert fleet.shows("later:a", at + 1000) != {}
    fleet.run(manager, at)  # a pass that is late has a moment from before the last sample
    assert fleet.shows("later:a", at + 1000) == {}


def test_the_clock_evaluates_in_threads_of_its_own_until_it_is_stopped(fleet: Fleet) -> None:
    """A clock that the test turns: it wakes by itself when the wait is over, which is a millisecond here."""
    clock = {"now": fleet.now_ms}
    ran: list[str] = []
    done = threading.Event()
    manager = RuleManager(
        groups(text(("clock:one", "1"), interval="1ms")),
        fleet.store,
        fleet.store,
        now_ms=lambda: clock["now"],
    )
    evaluate = manager.evaluate

    def noticed(*arguments: object) -> None:
        ran.append(threading.current_thread().name)
        evaluate(*arguments)  # type: ignore[arg-type]
        done.set()

    manager.evaluate = noticed  # type: ignore[method-assign]
    manager.start()
    while not done.wait(0.01):
        clock["now"] += 1
    manager.stop()
    assert ran[0].startswith("rules")
    assert fleet.shows("count(clock:one)", clock["now"]) == {(): 1}
    passes = len(ran)
    clock["now"] += 1000
    assert manager.take_due(clock["now"]) == []
    assert len(ran) == passes
