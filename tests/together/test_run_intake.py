"""Programs' records through the real intake into a real store: each once, and who lives is known."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from run_lines import Sender
from run_records import RUN
from trilens.collect.runs import intake as intake_module
from trilens.collect.runs.intake import RunIntake, Taken
from trilens.model.errors import RunIntakeBusy, RunRecordsError, StoreError, StoreReadOnly
from trilens.model.run import Ending
from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.run_commits import BULKY, SMALL
from trilens.store.run_rows import POSITIONS, PROCESSES, RUNS
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.run import RankProcess
    from trilens.model.run_commit import RunCommit


class Clock:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


class FailingRecords(RunRecords):
    """A store that can be told to fail, before a group is written or in the middle of it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.failing = False
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def commit(self, commit: RunCommit) -> None:
        self.entered.set()
        self.go_on.wait()
        if self.failing:
            raise StoreReadOnly("no space left on disk")
        super().commit(commit)


@pytest.fixture(scope="module")
def one_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine.open(tmp_path_factory.mktemp("runs") / "data") as opened:
        migrate(opened)
        yield opened


@pytest.fixture
def engine(one_engine: Engine) -> Engine:
    """Empty: to make one anew takes longer than most of these tests."""
    for table in (*BULKY, *SMALL, RUNS, PROCESSES, POSITIONS):
        one_engine.command(f"TRUNCATE TABLE {table.name}")
    return one_engine


@pytest.fixture
def records(engine: Engine) -> FailingRecords:
    return FailingRecords(engine)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def intake(records: FailingRecords, clock: Clock) -> Iterator[RunIntake]:
    made = RunIntake(records, clock_s=clock, time_s=clock)
    made.start()
    yield made
    records.go_on.set()
    made.stop()


def take(intake: RunIntake, body: bytes, **how: Any) -> Taken:
    return intake.receive(body, "", **how).taken.result(timeout=30)


def standing(records: RunRecords, rank: int = 0) -> RankProcess:
    return [process for process in records.processes([RUN]) if process.rank == rank][-1]


def looked(intake: RunIntake, clock: Clock, after_s: float) -> None:
    """As its thread does about every second."""
    clock.s += after_s
    with intake._change:
        intake._look()


def test_what_is_answered_is_on_disk(intake: RunIntake, records: RunRecords) -> None:
    sender = Sender()
    assert take(intake, sender.first(3)) == Taken(0, 2.0)
    assert take(intake, sender.batch(2) + sender.batch(1)).seq == 2
    assert [step.n for step in records.steps(RUN, 0, 99)] == [0, 1, 2, 3, 4, 5]
    assert [facts.experiment for facts in records.runs()] == ["lr"]
    (span,) = records.spans(RUN)
    assert (span.first_step, span.last_step, span.records, span.samples) == (0, 5, 6, 6)
    assert (standing(records).node, standing(records).step, standing(records).ending) == ("gpu-1", 6, None)
    assert take(intake, sender.heartbeat()).seq == 2


def test_a_batch_that_comes_twice_is_taken_once(intake: RunIntake, records: RunRecords) -> None:
    sender = Sender()
    first, second = sender.first(2), sender.batch(2)
    assert take(intake, first).seq == 0
    assert take(intake, first + second).seq == 1
    assert take(intake, second).seq == 1
    assert len(records.steps(RUN, 0, 99)) == len(records.batches(RUN, 0, 99)) == 4
    assert len(records.sightings(7)) == 1
    assert (intake.stats.taken, intake.stats.repeated, intake.stats.steps) == (2, 2, 4)


def test_a_batch_that_comes_twice_before_it_is_on_disk(intake: RunIntake, records: FailingRecords) -> None:
    sender = Sender()
    first = sender.first(2)
    records.go_on.clear()
    receipts = [intake.receive(first, "")]
    records.entered.wait(30)
    receipts.append(intake.receive(first, ""))  # its sender gave up waiting
    assert not receipts[1].taken.done()
    records.go_on.set()
    assert [receipt.taken.result(timeout=30).seq for receipt in receipts] == [0, 0]
    assert len(records.steps(RUN, 0, 99)) == 2


def test_after_a_new_start_positions_and_attempts_are_known(
    intake: RunIntake, records: RunRecords, clock: Clock
) -> None:
    old, second = Sender(number=1), Sender(number=2)
    lines = old.first(2)
    take(intake, lines)
    take(intake, second.first(1))
    intake.stop()
    again = RunIntake(records, clock_s=clock, time_s=clock)
    again.start()
    assert take(again, lines).seq == 0
    assert take(again, second.batch(1)).seq == 1
    assert take(again, Sender(number=3).first(1)).seq == 0
    assert take(again, Sender(rank=1, number=3).first(1)).seq == 0
    again.stop()
    attempts = [(step.rank, step.attempt, step.n) for step in records.steps(RUN, 0, 99)]
    assert sorted(attempts) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 2, 0), (1, 0, 0)]


def test_a_disk_that_takes_nothing_loses_nothing(intake: RunIntake, records: FailingRecords) -> None:
    sender, other = Sender(), Sender(rank=1)
    first, second = sender.first(2), sender.batch(2)
    records.failing = True
    records.go_on.clear()
    failed = [intake.receive(first, "")]
    records.entered.wait(30)
    failed += [intake.receive(second, ""), intake.receive(other.first(1), "")]
    records.go_on.set()
    for receipt in failed:
        with pytest.raises(StoreError):
            receipt.taken.result(timeout=30)
    records.failing = False
    assert take(intake, first + second).seq == 1
    assert [step.n for step in records.steps(RUN, 0, 99)] == [0, 1, 2, 3]
    assert [facts.experiment for facts in records.runs()] == ["lr"]


def test_when_too_much_waits_senders_are_sent_away(
    intake: RunIntake, records: FailingRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "_MAX_WAITING_BYTES", 100)
    sender = Sender()
    records.go_on.clear()
    receipt = intake.receive(sender.first(2), "")
    with pytest.raises(RunIntakeBusy):
        intake.receive(sender.batch(1), "")
    records.go_on.set()
    assert receipt.taken.result(timeout=30).seq == 0
    assert intake.receive(sender.batch(1, seq=1), "").taken.result(timeout=30).seq == 1


def test_what_is_before_a_bad_batch_is_taken(intake: RunIntake, records: RunRecords) -> None:
    sender = Sender()
    receipt = intake.receive(sender.first(2) + sender.batch(1).replace(b'"rank": 0', b'"rank": "0"'), "")
    assert receipt.taken.result(timeout=30).seq == 0
    assert receipt.refusal is not None
    assert receipt.refusal.seq == 1
    assert len(records.steps(RUN, 0, 99)) == 2
    with pytest.raises(RunRecordsError):
        intake.receive(b"{}", "")


def test_a_run_is_there_before_its_lowest_rank_told_of_it(intake: RunIntake, records: RunRecords) -> None:
    take(intake, Sender(rank=1).first(1))
    (facts,) = records.runs()
    assert (facts.run, facts.experiment) == (RUN, None)
    take(intake, Sender(rank=0).first(1))
    take(intake, Sender(rank=2).first(1))
    assert [facts.experiment for facts in records.runs()] == ["lr"]


def test_steps_done_again_are_another_way_forward(intake: RunIntake, records: RunRecords) -> None:
    sender = Sender()
    take(intake, sender.first(5))
    sender.step = 2
    take(intake, sender.batch(4))
    there, back = records.spans(RUN)
    assert (there.first_step, there.last_step, there.first_n, there.last_n) == (0, 4, 0, 4)
    assert (back.first_step, back.last_step, back.first_n, back.last_n) == (2, 5, 5, 8)


def test_a_process_that_falls_silent_is_lost_and_may_come_back(
    intake: RunIntake, records: RunRecords, clock: Clock
) -> None:
    sender = Sender()
    take(intake, sender.first(1))
    heard_ms = standing(records).heard_ms
    looked(intake, clock, 5.9)
    assert standing(records).ending is None
    looked(intake, clock, 1.1)
    lost = standing(records)
    assert (lost.ending, lost.ended_ms, lost.heard_ms) == (Ending.LOST, heard_ms, heard_ms)
    take(intake, sender.heartbeat(step=9))
    back = standing(records)
    assert (back.ending, back.ended_ms, back.step) == (None, None, 9)
    for _ in range(3):  # it tries again and again, for it hears no answer
        looked(intake, clock, 4.0)
        take(intake, sender.batch(1, seq=0))
    assert standing(records).ending is None
    intake.stop()
    with pytest.raises(RunIntakeBusy):
        intake.receive(sender.heartbeat(), "")


def test_a_longer_promise_is_waited_for(intake: RunIntake, records: RunRecords, clock: Clock) -> None:
    sender = Sender()
    take(intake, sender.first(1, state={"heartbeat_s": 10.0}))
    looked(intake, clock, 29.0)
    assert standing(records).ending is None
    looked(intake, clock, 2.0)
    assert standing(records).ending is Ending.LOST


def test_an_end_that_was_told_stays(intake: RunIntake, records: RunRecords, clock: Clock) -> None:
    sender = Sender()
    end = {"t_ms": 77, "how": "failed", "error": "ValueError: no"}
    take(intake, sender.first(1, end=end))
    looked(intake, clock, 100.0)
    ended = standing(records)
    assert (ended.ending, ended.ended_ms, ended.error) == (Ending.FAILED, 77, "ValueError: no")


def test_an_end_that_comes_while_a_group_is_written_is_kept(
    intake: RunIntake, records: FailingRecords, engine: Engine
) -> None:
    sender = Sender()
    records.go_on.clear()
    first = intake.receive(sender.first(1), "")
    records.entered.wait(30)
    last = intake.receive(sender.batch(end={"t_ms": 5, "how": "finished"}), "")
    records.go_on.set()
    assert [receipt.taken.result(timeout=30).seq for receipt in (first, last)] == [0, 1]
    assert standing(records).ending is Ending.FINISHED
    assert standing(RunRecords(engine)).ending is Ending.FINISHED


def test_what_another_sends_for_it_is_no_sign_of_life(
    intake: RunIntake, records: RunRecords, clock: Clock
) -> None:
    sender = Sender()
    take(intake, sender.first(1), for_dead=True)
    dead = standing(records)
    assert (dead.ending, dead.heard_ms) == (Ending.LOST, int(clock.s * 1000))
    take(intake, sender.batch(1, end={"t_ms": 5, "how": "finished"}), for_dead=True)
    assert standing(records).ending is Ending.FINISHED


def test_after_a_new_start_nobody_is_dead_before_it_could_be_heard(
    intake: RunIntake, records: RunRecords, engine: Engine, clock: Clock
) -> None:
    take(intake, Sender(rank=0).first(1))
    take(intake, Sender(rank=1).first(1))
    intake.stop()
    clock.s += 600
    reopened = RunRecords(engine)
    again = RunIntake(reopened, clock_s=clock, time_s=clock)
    again.start()
    looked(again, clock, 44.0)
    take(again, Sender(rank=1, seq=1).heartbeat())
    looked(again, clock, 2.0)
    assert standing(reopened, 0).ending is Ending.LOST
    assert standing(reopened, 1).ending is None
    again.stop()
    assert standing(RunRecords(engine), 0).ending is Ending.LOST


def test_many_ranks_are_asked_to_send_less_often(intake: RunIntake, clock: Clock) -> None:
    for rank in range(12):
        take(intake, Sender(rank=rank).heartbeat())
    looked(intake, clock, 1.5)
    assert intake.interval_s == 2.0
    intake._alive = 1_024
    assert intake.interval_s == pytest.approx(5.12)
    intake._alive = 100_000
    assert intake.interval_s == 30.0


def test_a_run_that_was_heard_long_ago_leaves_memory(intake: RunIntake, clock: Clock) -> None:
    sender = Sender()
    take(intake, sender.first(1, end={"t_ms": 5, "how": "finished"}))
    looked(intake, clock, 899.0)
    assert intake.processes()
    looked(intake, clock, 10.0)
    assert intake.processes() == []
    assert take(intake, sender.batch(1)).seq == 1


ENDED = {"t_ms": 5, "how": "failed", "error": "out of memory"}


def test_earlier_lives_of_a_run_that_goes_on_leave_memory(
    intake: RunIntake, records: RunRecords, clock: Clock
) -> None:
    first = Sender()
    whole = first.first(2)
    take(intake, whole + first.batch(1, end=ENDED))
    going_on = Sender(number=2)
    take(intake, going_on.first(1))
    intake.settle()
    assert len(intake.processes()) == 2
    looked(intake, clock, 899.0)
    take(intake, going_on.heartbeat())
    assert [one.attempt for one in intake.processes()] == [0, 1]
    looked(intake, clock, 2.0)
    assert [one.attempt for one in intake.processes()] == [1]
    assert take(intake, whole).seq == 1  # it sends again what it was never answered to
    told = sorted((step.attempt, step.n) for step in records.steps(RUN, 0, 9))
    assert told == [(0, 0), (0, 1), (0, 2), (1, 0)]
    take(intake, first.batch(1))  # an agent had what it sent last
    take(intake, Sender(number=3).first(1))
    assert [(one.attempt, one.ending) for one in records.processes([RUN])] == [
        (0, Ending.FAILED),
        (1, None),
        (2, None),
    ]


def test_what_several_earlier_lives_have_left_is_looked_up_at_once(
    intake: RunIntake, records: RunRecords, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that was away for long has many, and others wait while they are looked up."""
    earlier, going_on = [Sender(number=number) for number in (1, 2)], Sender(number=3)
    for one in earlier:
        take(intake, one.first(1) + one.batch(1, end=ENDED))
    take(intake, going_on.first(1))
    intake.settle()
    looked(intake, clock, 899.0)
    take(intake, going_on.heartbeat())
    looked(intake, clock, 2.0)
    assert len(intake.processes()) == 1
    asked, positions = [], records.positions
    monkeypatch.setattr(records, "positions", lambda run: asked.append(run) or positions(run))
    assert [take(intake, one.batch(1)).seq for one in earlier] == [2, 2]
    assert asked == [RUN]


def test_of_a_run_that_goes_on_what_is_alive_or_latest_stays(intake: RunIntake, clock: Clock) -> None:
    seldom = Sender()
    take(intake, seldom.first(1))
    take(intake, seldom.heartbeat(heartbeat_s=600.0))
    take(intake, Sender(number=2).first(1))  # of the same rank, and both live
    take(intake, Sender(rank=1).first(1, end=ENDED))
    for _ in range(3):
        looked(intake, clock, 1_000.0)
        take(intake, Sender(number=2).heartbeat())
    assert len(intake.processes()) == 3


def test_an_earlier_life_that_ends_late_is_told_of_for_a_while(intake: RunIntake, clock: Clock) -> None:
    first, second = Sender(), Sender(number=2)
    take(intake, first.first(1))
    take(intake, second.first(1))
    clock.s += 1_000.0
    take(intake, first.batch(1, end=ENDED))
    intake.settle()
    for lives in (2, 1):
        take(intake, second.heartbeat())
        looked(intake, clock, 500.0)
        assert len(intake.processes()) == lives


def test_what_cannot_be_told_on_is_kept_and_stops_nothing(
    records: RunRecords, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[RunCommit] = []

    def tell_on(commit: RunCommit) -> None:
        told.append(commit)
        raise OSError("nobody listens")

    intake = RunIntake(records, on_kept=tell_on)
    intake.start()
    try:
        sender = Sender()
        for batch in (sender.first(1), sender.batch(1)):
            take(intake, batch)
    finally:
        intake.stop()
    assert [step.n for step in records.steps(RUN, 0, 9)] == [0, 1]
    assert [len(commit.steps) for commit in told if commit.steps] == [1, 1]
    assert "cannot be told on" in caplog.text


def test_a_sender_that_does_not_wait_is_no_error(
    intake: RunIntake, records: FailingRecords, caplog: pytest.LogCaptureFixture
) -> None:
    records.go_on.clear()
    sender = Sender()
    gone = intake.receive(sender.first(1), "").taken
    gone.cancel()
    records.go_on.set()
    assert take(intake, sender.batch(1)).seq == 1
    assert not caplog.records
