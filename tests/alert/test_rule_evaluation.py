"""A group at one moment, as Prometheus evaluates it, on a real store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules_at_work import groups
from trilens.alert.evaluation import SAME_LABELS
from trilens.alert.pass_source import PassSource
from trilens.model.errors import StoreReadOnly
from trilens.model.labels import make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest

if TYPE_CHECKING:
    import pytest

    from rules_at_work import Fleet

STEP = 60_000


def group(*rules: str, name: str = "g", extra: str = "") -> str:
    return f"groups:\n- name: {name}\n{extra}  rules:\n" + "".join(f"  - {rule}\n" for rule in rules)


def named(**labels: str) -> tuple[tuple[str, str], ...]:
    return make_labels({k.replace("name_", "__name__"): v for k, v in labels.items()})


def test_each_rule_sees_what_those_before_it_recorded(fleet: Fleet) -> None:
    for gpu in "01":
        fleet.put("order_power", fleet.now_ms, 100 + int(gpu), gpu=gpu, job="a")
    text = group(
        "{record: order:sum, expr: sum(order_power)}",
        "{record: order:double, expr: order:sum * 2, labels: {kind: double, gone: ''}}",
    )
    manager = fleet.rules(*groups(text))
    fleet.run(manager, fleet.now_ms)
    assert fleet.shows('{__name__=~"order:.*"}', fleet.now_ms) == {
        named(name_="order:sum"): 201,
        named(name_="order:double", kind="double"): 402,
    }
    (state,) = manager.states()
    assert [rule.health for rule in state.rules] == ["ok", "ok"]
    assert (state.samples, state.evaluations, state.failures, state.iterations) == (2, 2, 0, 1)


def test_a_rule_may_use_its_own_last_value(fleet: Fleet) -> None:
    fleet.put("own_start", fleet.now_ms, 1)
    manager = fleet.rules(*groups(group("{record: own:total, expr: own:total + 1 or own_start}")))
    for k in range(3):
        fleet.run(manager, fleet.now_ms + k * STEP)
    assert fleet.shows("own:total", fleet.now_ms + 2 * STEP) == {named(name_="own:total"): 3}


def test_what_a_rule_read_before_it_was_recorded_is_read_again_after(fleet: Fleet) -> None:
    rules = (
        "{record: 'anew:one', expr: 'anew:one + 1 or vector(0)'}",
        "{record: 'anew:two', expr: 'anew:one'}",
    )
    manager = fleet.rules(*groups(group(*rules)))
    for k in range(2):
        fleet.run(manager, fleet.now_ms + k * STEP)
    assert fleet.shows("anew:two", fleet.now_ms + STEP) == {named(name_="anew:two"): 1}


def test_a_scalar_is_recorded_without_labels(fleet: Fleet) -> None:
    fleet.run(fleet.rules(*groups(group("{record: scalar:one, expr: 1 + 1}"))), fleet.now_ms)
    assert fleet.shows("scalar:one", fleet.now_ms) == {named(name_="scalar:one"): 2}


def test_a_label_with_an_empty_value_is_taken_away(fleet: Fleet) -> None:
    fleet.put("empty_power", fleet.now_ms, 7, gpu="0", job="a")
    manager = fleet.rules(*groups(group("{record: empty:power, expr: empty_power, labels: {job: ''}}")))
    fleet.run(manager, fleet.now_ms)
    assert fleet.shows("empty:power", fleet.now_ms) == {named(name_="empty:power", gpu="0"): 7}


def test_a_series_that_vanished_ends_and_one_that_comes_begins(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("gone_power", at, 1, gpu="0")
    fleet.put("gone_power", at, 2, gpu="1")
    manager = fleet.rules(*groups(group("{record: gone:power, expr: gone_power > 1}")))
    fleet.run(manager, at)
    assert fleet.shows("gone:power", at) == {named(name_="gone:power", gpu="1"): 2}
    fleet.put("gone_power", at + STEP, 5, gpu="0")
    fleet.put("gone_power", at + STEP, 0, gpu="1")
    fleet.put("gone_power", at + STEP, 3, gpu="2", rack="r")
    fleet.run(manager, at + STEP)
    assert fleet.shows("gone:power", at + STEP) == {
        named(name_="gone:power", gpu="0"): 5,
        named(name_="gone:power", gpu="2", rack="r"): 3,
    }
    assert fleet.shows("gone:power", at + STEP - 1) == {named(name_="gone:power", gpu="1"): 2}


def test_a_later_rule_of_the_pass_does_not_see_what_has_just_ended(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("next_power", at, 2)
    rules = "{record: next:power, expr: next_power > 1}", "{record: next:seen, expr: count(next:power)}"
    manager = fleet.rules(*groups(group(*rules)))
    fleet.run(manager, at)
    fleet.put("next_power", at + STEP, 0)
    fleet.run(manager, at + STEP)
    assert fleet.shows("next:seen", at) == {named(name_="next:seen"): 1}
    assert fleet.shows("next:seen", at + STEP) == {}


def test_series_end_over_a_restart(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("again_power", at, 2, gpu="0")
    fleet.put("again_power", at, 3, gpu="1")
    found = groups(group("{record: again:power, expr: again_power > 1, labels: {by: rule}}"))
    fleet.run(fleet.rules(*found), at)
    fleet.put("again:power", at + STEP - 7, 9, gpu="9", by="rule")  # another's, not on the schedule
    fleet.put("again_power", at + STEP, 0, gpu="0")
    fleet.run(fleet.rules(*found), at + STEP)
    assert fleet.shows("again:power", at + STEP) == {
        named(name_="again:power", gpu="1", by="rule"): 3,
        named(name_="again:power", gpu="9", by="rule"): 9,
    }


def test_two_rules_of_one_name_do_not_end_each_others_series_at_the_start(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("twin_a", at, 1, side="a")
    fleet.put("twin_b", at, 2, side="b")
    found = groups(group("{record: twin:both, expr: twin_a}", "{record: twin:both, expr: twin_b}"))
    fleet.run(fleet.rules(*found), at)
    again = fleet.rules(*found)
    fleet.run(again, at + STEP)
    assert fleet.shows("twin:both", at + STEP) == {
        named(name_="twin:both", side="a"): 1,
        named(name_="twin:both", side="b"): 2,
    }
    assert [rule.health for rule in again.states()[0].rules] == ["ok", "ok"]


def test_a_failing_rule_says_so_and_the_others_go_on(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("fail_power", at, 1, gpu="0", host="a")
    fleet.put("fail_power", at, 1, gpu="0", host="b")
    text = group(
        "{record: 'fail:same', expr: 'fail_power', labels: {host: ''}}",
        "{record: 'fail:match', expr: 'fail_power + on (gpu) fail_power'}",
        "{record: 'fail:matrix', expr: 'fail_power[5m]'}",
        "{record: 'fail:fine', expr: 'count(fail_power)'}",
    )
    manager = fleet.rules(*groups(text))
    fleet.run(manager, at)
    same, match, matrix, fine = manager.states()[0].rules
    assert same.last_error == SAME_LABELS
    assert match.last_error is not None
    assert "many-to-many" in match.last_error
    assert matrix.last_error == "rule result is not a vector or scalar"
    assert [rule.health for rule in (same, match, matrix, fine)] == ["err", "err", "err", "ok"]
    assert manager.states()[0].failures == 3
    assert fleet.shows('{__name__=~"fail:.*"}', at) == {named(name_="fail:fine"): 2}


def test_a_limit_refuses_the_whole_result(fleet: Fleet) -> None:
    fleet.put("limit_power", fleet.now_ms, 1, gpu="0")
    fleet.put("limit_power", fleet.now_ms, 1, gpu="1")
    manager = fleet.rules(*groups(group("{record: limit:power, expr: limit_power}", extra="  limit: 1\n")))
    fleet.run(manager, fleet.now_ms)
    assert manager.states()[0].rules[0].last_error == "exceeded limit of 1 with 2 series"
    assert fleet.shows("limit:power", fleet.now_ms) == {}


def test_a_query_offset_evaluates_and_records_in_the_past(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("late_power", at - STEP, 1)
    fleet.put("late_power", at, 2)
    manager = fleet.rules(
        *groups(group("{record: late:power, expr: late_power}", extra="  query_offset: 1m\n"))
    )
    fleet.run(manager, at)
    assert fleet.shows("timestamp(late:power)", at) == {(): (at - STEP) / 1000}
    assert fleet.shows("late:power", at) == {named(name_="late:power"): 1}
    (state,) = manager.states()
    assert state.last_evaluation_ms == state.rules[0].last_evaluation_ms == at, "when, not of which moment"


def test_what_the_store_refuses_is_said_and_made_up_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = fleet.now_ms
    fleet.put("full_power", at, 2)
    manager = fleet.rules(*groups(group("{record: full:power, expr: full_power > 1}")))
    fleet.run(manager, at)
    (rule,) = manager.states()[0].rules
    fleet.put("full_power", at + STEP, 0)

    def refuse(*_: object) -> None:
        raise StoreReadOnly("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(fleet.store, "append", refuse)
        fleet.run(manager, at + STEP)
    assert rule.health == "err"
    assert "the disk is full" in str(rule.last_error)
    fleet.run(manager, at + 2 * STEP)  # now the marker gets through
    assert (rule.health, rule.last_error) == ("ok", None)
    assert fleet.shows("full:power", at + 2 * STEP) == {}


def test_a_sample_that_another_wrote_first_is_told(fleet: Fleet) -> None:
    at = fleet.now_ms
    fleet.put("first:power", at, 99)
    manager = fleet.rules(*groups(group("{record: first:power, expr: vector(1)}")))
    fleet.run(manager, at)
    assert manager.states()[0].rules[0].last_error == "1 samples were refused: at the time of another value"


def test_a_pass_reads_a_selector_once_until_something_is_recorded_under_its_name(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.put("once_power", fleet.now_ms, 1)
    reads = []
    select = fleet.store.select
    monkeypatch.setattr(fleet.store, "select", lambda r, g: reads.append(r) or select(r, g))
    source = PassSource(fleet.store)

    def ask(*matchers: Matcher) -> int:
        source.select(SelectRequest(matchers, fleet.now_ms - 1, fleet.now_ms), QueryGuard())
        return len(reads)

    by_name, by_pattern = Matcher("__name__", "=", "once_power"), Matcher("__name__", "=~", "once.*")
    assert [ask(by_name), ask(by_name), ask(by_pattern), ask(by_pattern)] == [1, 1, 2, 2]
    source.recorded("once:other")
    assert [ask(by_name), ask(by_pattern)] == [2, 3]
    source.recorded("once_power")
    assert [ask(by_name), ask(by_pattern)] == [4, 5]
