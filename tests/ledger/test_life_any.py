"""Any life, told step by step and booked naively, is booked the same from its minutes.

Exact but for rounding to milliseconds. What the rules leave open, and these tests allow for: of a minute in
which steps were lost in part, after which of them it paused (up to one pause); of a step over a full
hour, when in it it waited (up to a step).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from told_steps import HOUR, SECOND_US, Told, booked_s, facts_of, history_of, is_whole

from trilens.ledger.lives.lost_work import lost_steps
from trilens.ledger.lives.spans import life_spans
from trilens.model.ledger import HOUR_MS
from trilens.model.run import Ending

LATER = HOUR + 40 * HOUR_MS
FEW_MS = 0.01


@dataclass
class Booked:
    """A life that keeps a naive book of its own: whatever it does, it writes down what for."""

    step_s: float
    data: float  # shares of a step
    sync: float
    told: Told
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    by_step: dict[int, float] = field(default_factory=dict)  # what is lost with each
    waiting: list[tuple[str, float]] = field(default_factory=list)
    has_stepped: bool = False

    @property
    def patience_s(self) -> float:
        return max(60.0, 5 * self.step_s)

    def starts(self, seconds: float) -> None:
        self.told.passes(seconds)
        self.seconds["starting"] += seconds

    def steps(self, count: int) -> None:
        phases = {"data": self.step_s * self.data, "grad_sync": self.step_s * self.sync}
        for _ in range(count):
            self.told.does(1, self.step_s, phases=phases)
            self._book(self.step_s, phases)

    def hangs(self, seconds: float) -> None:
        """In the middle of a step, while it waits for the others."""
        phases = {"data": self.step_s * self.data, "grad_sync": self.step_s * self.sync + seconds}
        self.told.does(1, self.step_s + seconds, phases=phases)
        self._book(self.step_s + seconds, phases)

    def pauses(self, seconds: float) -> None:
        self.told.passes(seconds)
        self.waiting.append(("pause", seconds))

    def saves(self, seconds: float) -> None:
        self.told.saves(seconds)
        self.waiting.append(("checkpoint", seconds))

    def validates(self, seconds: float) -> None:
        self.told.validates(seconds)
        self.waiting.append(("validation", seconds))

    def _book(self, step_s: float, phases: dict[str, float]) -> None:
        """From the end of the step before to the end of this one."""
        apart = sum(s for kind, s in self.waiting if kind != "pause")
        self.seconds["checkpoint"] += sum(s for kind, s in self.waiting if kind == "checkpoint")
        self.seconds["productive"] += sum(s for kind, s in self.waiting if kind == "validation")
        rest = step_s + sum(s for _, s in self.waiting) - apart
        if rest > self.patience_s:
            self.seconds["stalled"] += rest
        else:
            self.by_step[self.told.step - 1] = rest
            self.seconds["data_wait"] += phases["data"]
            self.seconds["sync_wait"] += phases["grad_sync"]
            self.seconds["productive"] += rest - phases["data"] - phases["grad_sync"]
        self.waiting = []
        self.has_stepped = True

    def ends(self, ending: Ending) -> None:
        paused = sum(s for kind, s in self.waiting if kind == "pause")
        for kind, seconds in self.waiting:
            if kind == "checkpoint":
                self.seconds["checkpoint"] += seconds
            elif kind == "validation" or paused <= self.patience_s:
                self.seconds["productive"] += seconds
            else:
                self.seconds["stalled"] += seconds
        self.waiting = []
        self.told.ends(ending)


@st.composite
def lives(draw: st.DrawFn, attempt: int = 0, begins_s: float = 0.0, step: int = 1) -> Booked:
    """Pauses are far shorter or far longer than what is a stall: the median is of steps, or of minutes."""
    step_s = draw(st.sampled_from([0.25, 1.0, 7.5, 40.0, 100.0]))
    life = Booked(
        step_s,
        draw(st.sampled_from([0.0, 0.3])),
        draw(st.sampled_from([0.0, 0.25])),
        Told(begins_s, attempt=attempt, step=step),
    )
    life.starts(draw(st.floats(0.5, 900).map(lambda s: round(s, 3))))
    life.steps(draw(st.integers(20, 60)))
    brief = st.floats(0.001, 12).map(lambda s: round(s, 3))
    long = st.floats(3 * life.patience_s, 10 * life.patience_s).map(lambda s: round(s, 3))
    acts = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("pauses"), st.one_of(brief, long)),
                st.tuples(st.just("saves"), st.one_of(brief, long)),
                st.tuples(st.just("validates"), st.one_of(brief, long)),
                st.tuples(st.just("hangs"), long),
            ),
            max_size=5,
        )
    )
    for name, seconds in acts:
        getattr(life, name)(seconds)
        # Between two acts there are steps, so that each is seen for itself.
        life.steps(draw(st.integers(8, 40)))
    if draw(st.booleans()):
        life.saves(draw(brief))
    return life


@settings(max_examples=40, deadline=None)
@given(lives(), st.sampled_from([Ending.FINISHED, Ending.FAILED, Ending.LOST]), st.floats(0.001, 12))
def test_a_life_that_is_over_is_booked_as_it_went(life: Booked, ending: Ending, last_s: float) -> None:
    life.pauses(round(last_s, 3))
    life.ends(ending)
    told = life.told
    spans = life_spans(facts_of(told, to_ms=LATER), [], LATER)[told.key]
    assert is_whole(spans, HOUR, told.at_us // 1000)
    assert_near(booked_s(spans), life.seconds, FEW_MS)


@settings(max_examples=15, deadline=None)
@given(lives())
def test_hours_add_up_to_the_life(life: Booked) -> None:
    life.ends(Ending.FINISHED)
    told = life.told
    sums: defaultdict[str, float] = defaultdict(float)
    hour, hours = HOUR, 0
    while hour * 1000 < told.at_us:
        spans = life_spans(facts_of(told, from_ms=hour, to_ms=hour + HOUR_MS), [], LATER)[told.key]
        assert is_whole(spans, hour, min(hour + HOUR_MS, told.at_us // 1000))
        for bucket, seconds in booked_s(spans).items():
            sums[bucket] += seconds
        hour, hours = hour + HOUR_MS, hours + 1
    assume(hours > 1)
    assert_near(sums, life.seconds, hours * life.step_s)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_a_crash_cost_is_found(data: st.DataObject) -> None:
    first = data.draw(lives())
    saved = first.told.step - 1
    first.saves(2.0)
    first.steps(data.draw(st.integers(1, 300)))
    first.ends(data.draw(st.sampled_from([Ending.FAILED, Ending.LOST])))
    lost_s = sum(seconds for step, seconds in first.by_step.items() if step > saved)
    begins_s = (first.told.at_us - HOUR * 1000) / SECOND_US + 30
    again = Told(begins_s, attempt=1).loads(saved).passes(20).does(50, first.step_s).ends()
    history = history_of(first.told, again)
    spans = life_spans(facts_of(first.told, again, to_ms=LATER), lost_steps(history), LATER)
    assert_near_one(booked_s(spans[first.told.key]).get("recompute", 0.0), lost_s, 13.0)
    assert "recompute" not in booked_s(spans[again.key])
    of_others = {
        bucket: seconds for bucket, seconds in first.seconds.items() if bucket in ("stalled", "starting")
    }
    found = booked_s(spans[first.told.key])
    for bucket, seconds in of_others.items():
        assert_near_one(found.get(bucket, 0.0), seconds, FEW_MS)


def assert_near(found: dict[str, float], expected: dict[str, float], by_s: float) -> None:
    for bucket in {*found, *expected}:
        assert_near_one(found.get(bucket, 0.0), expected.get(bucket, 0.0), by_s)


def assert_near_one(found: float, expected: float, by_s: float) -> None:
    assert abs(found - expected) <= by_s, (found, expected)
