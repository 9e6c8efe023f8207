"""When which hour is computed, and why."""

from __future__ import annotations

from trilens.ledger.due_hours import CLOSE_AFTER_MS, DueHours, Reason, Stretch
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import BookedHour

NOON = 500_000 * HOUR_MS
MINUTE = 60_000
PRICES = "p1"


def booked(hour: int, *, upto: int | None = None, computed: int | None = None) -> BookedHour:
    end = hour + HOUR_MS
    computed = computed if computed is not None else end + CLOSE_AFTER_MS
    return BookedHour(hour, 0, upto or end, computed, 0, 0, 0, 0, "", 0, "closed", PRICES, "", ())


def open_hour(hour: int) -> BookedHour:
    return booked(hour, upto=hour + MINUTE, computed=hour + MINUTE)


def drained(due: DueHours, now_ms: int, prices: str = PRICES) -> list[tuple[int, Reason]]:
    """In the order in which they are computed, each as if it went well."""
    order = []
    while (stretch := due.next(now_ms, 24)) is not None:
        for hour in range(stretch.to_ms - HOUR_MS, stretch.from_ms - 1, -HOUR_MS):
            order.append(((hour - NOON) // HOUR_MS, stretch.reason))
            due.done(hour, hour + HOUR_MS, now_ms, prices)
    return order


def test_an_hour_is_closed_ten_minutes_after_its_end_and_not_before() -> None:
    due = DueHours([open_hour(NOON)], NOON + MINUTE)
    due.look(NOON + HOUR_MS + CLOSE_AFTER_MS - 1, NOON)
    assert due.next(NOON + HOUR_MS + CLOSE_AFTER_MS - 1, 24) is None
    due.look(NOON + HOUR_MS + CLOSE_AFTER_MS, NOON)
    assert drained(due, NOON + HOUR_MS + CLOSE_AFTER_MS) == [(0, Reason.CLOSED)]


def test_an_hour_that_nobody_booked_while_it_was_open_waits_for_nothing() -> None:
    """A server that is started at five past shows the money of the hour before."""
    now = NOON + HOUR_MS + 5 * MINUTE
    due = DueHours([], now)
    due.look(now, NOON)
    assert drained(due, now) == [(0, Reason.CLOSED)]


def test_an_hour_is_looked_at_again_after_one_six_and_twenty_four_hours() -> None:
    due = DueHours([open_hour(NOON)], NOON + MINUTE)
    seen = []
    for minute in range(0, 30 * 60, 5):
        now = NOON + minute * MINUTE
        due.look(now, NOON)
        seen += [(minute, reason) for hour, reason in drained(due, now) if hour == 0]
    assert seen == [
        (70, Reason.CLOSED),
        (120, Reason.AGAIN),
        (7 * 60, Reason.AGAIN),
        (25 * 60, Reason.AGAIN),
    ]


def test_what_a_server_that_was_down_missed_is_caught_up_newest_first() -> None:
    """It was last at work at the end of hour 1, and comes back in hour 6; hour 1 was open then."""
    last = NOON + 2 * HOUR_MS - MINUTE
    before = [booked(NOON), booked(NOON + HOUR_MS, upto=last, computed=last)]
    now = NOON + 6 * HOUR_MS + 30 * MINUTE
    due = DueHours(before, now)
    due.look(now, NOON - HOUR_MS)
    assert drained(due, now) == [
        (5, Reason.CLOSED),
        (1, Reason.CLOSED),
        (0, Reason.AGAIN),
        (4, Reason.MISSED),
        (3, Reason.MISSED),
        (2, Reason.MISSED),
        (-1, Reason.MISSED),
    ]


def test_a_restart_does_not_compute_again_what_had_its_turn() -> None:
    now = NOON + 40 * HOUR_MS
    due = DueHours([booked(NOON), booked(NOON + 39 * HOUR_MS, computed=now - MINUTE)], now)
    due.look(now, None)
    assert drained(due, now) == []


def test_hours_that_lie_together_come_in_stretches() -> None:
    now = NOON + 40 * HOUR_MS
    due = DueHours([open_hour(now - HOUR_MS)], now)
    due.look(now, NOON)
    due.want([NOON + 3 * HOUR_MS], Reason.ASKED)
    asked = NOON + 3 * HOUR_MS
    due.done(now - 2 * HOUR_MS, now - HOUR_MS, now, PRICES)
    assert due.next(now, 24) == Stretch(asked, asked + HOUR_MS, Reason.ASKED)
    due.done(asked, asked + HOUR_MS, now, PRICES)
    assert due.next(now, 24) == Stretch(now - 26 * HOUR_MS, now - 2 * HOUR_MS, Reason.MISSED)
    assert due.next(now, 2) == Stretch(now - 4 * HOUR_MS, now - 2 * HOUR_MS, Reason.MISSED)


def test_other_prices_concern_hours_that_were_computed_with_others() -> None:
    now = NOON + 48 * HOUR_MS
    due = DueHours([booked(NOON), booked(NOON + HOUR_MS)], now)
    due.done(NOON + HOUR_MS, NOON + 2 * HOUR_MS, now, "p2")
    due.want_priced("p2", NOON)
    assert drained(due, now, "p2") == [(0, Reason.PRICES)]
    due.want_priced("p2", NOON)
    due.want_priced("p3", NOON + 60 * HOUR_MS)  # what is older has no facts any more
    assert drained(due, now) == []


def test_late_records_concern_an_hour_that_was_computed_before_them() -> None:
    now = NOON + 48 * HOUR_MS
    due = DueHours([booked(NOON), booked(NOON + HOUR_MS)], now)
    closed = NOON + HOUR_MS + CLOSE_AFTER_MS
    due.want_late({NOON: closed - 1, NOON + HOUR_MS: now, NOON + 9 * HOUR_MS: now})
    assert drained(due, now) == [(1, Reason.LATE)]


def test_a_failed_hour_is_tried_again_later_and_holds_up_no_other() -> None:
    due = DueHours([], NOON)
    due.want([NOON - HOUR_MS, NOON - 2 * HOUR_MS], Reason.ASKED)
    due.failed(NOON - HOUR_MS, NOON)
    assert due.next(NOON, 24) == Stretch(NOON - 2 * HOUR_MS, NOON - HOUR_MS, Reason.ASKED)
    due.done(NOON - 2 * HOUR_MS, NOON - HOUR_MS, NOON, PRICES)
    assert due.next(NOON + MINUTE - 1, 24) is None
    assert due.next(NOON + MINUTE, 24) is not None
    due.failed(NOON - HOUR_MS, NOON + MINUTE)
    assert due.next(NOON + 2 * MINUTE, 24) is None
    assert due.next(NOON + 3 * MINUTE, 24) is not None
    assert due.next(NOON - 12 * HOUR_MS, 24) is None  # not while the clock says that it is not over
    for _ in range(20):
        due.failed(NOON - HOUR_MS, NOON)
    assert due.next(NOON + HOUR_MS, 24) is not None


def test_a_clock_that_is_set_back_a_little_takes_nothing_away() -> None:
    due = DueHours([], NOON)
    due.done(NOON, NOON + 30 * MINUTE, NOON + 30 * MINUTE, PRICES)
    assert not due.may_take(NOON, NOON + 25 * MINUTE)
    assert due.may_take(NOON, NOON + 31 * MINUTE)


def test_what_a_clock_far_ahead_has_booked_is_computed_again() -> None:
    ahead = NOON + 72 * HOUR_MS
    due = DueHours([], ahead)
    due.done(NOON, NOON + HOUR_MS, ahead, PRICES)
    due.done(ahead, ahead + MINUTE, ahead + MINUTE, PRICES)
    due.look(ahead + MINUTE, NOON + 71 * HOUR_MS)
    due.look(NOON + 90 * MINUTE, NOON)
    assert drained(due, NOON + 90 * MINUTE) == [(0, Reason.CLOSED)]
    again = DueHours([booked(NOON, computed=ahead)], NOON + 90 * MINUTE)
    again.look(NOON + 90 * MINUTE, NOON)
    assert drained(again, NOON + 90 * MINUTE) == [(0, Reason.CLOSED)]


def test_lost_work_closes_no_hour_before_its_time() -> None:
    due = DueHours([], NOON)
    due.done(NOON - 2 * HOUR_MS, NOON - HOUR_MS, NOON, PRICES)
    due.done(NOON - HOUR_MS, NOON - MINUTE, NOON, PRICES)  # booked while it was open
    due.want_lost([NOON - 2 * HOUR_MS, NOON - HOUR_MS])
    assert due.waiting() == {NOON - 2 * HOUR_MS: Reason.LOST_WORK}
