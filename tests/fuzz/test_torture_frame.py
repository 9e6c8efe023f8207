"""The torture table tells no more than was done: what is resumed, what counts as flat, what is missed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from bench.torture import __main__ as main_module
from bench.torture import away, kill_server, load, machine, outbox, table
from bench.torture.attempt import Attempt, run
from bench.torture.code import tried_by
from bench.torture.dependency import Dependency, Surroundings, soon
from bench.torture.fault_proxy import Fault
from bench.torture.fuzz import campaign, http_api
from bench.torture.fuzz.campaign import outcome
from bench.torture.fuzz.mutation import mutations
from bench.torture.fuzz.targets import TARGETS
from bench.torture.row import Outcome, Row, Wanted
from bench.torture.rows import ROWS
from bench.torture.slope import slope_of
from bench.torture.state import State
from bench.torture.tally import Tally
from prometheus_client import CollectorRegistry, generate_latest

import acknowledged_writes
from http_target import HttpTarget
from receivers_at_work import HttpReceiver
from servers import until
from trilens.serve.state_metrics import store_metrics
from trilens.store.store import StoreHealth, StoreStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric


ROOT = Path(__file__).resolve().parents[2]


def nothing(_: Wanted) -> Outcome:
    raise AssertionError("it is not run here")


ROW = Row("row", "what is done", "the goal", 100, "times", nothing)
HELD = Outcome(True, 100, "all well")
MISSED = Outcome(False, 37, "one was lost")


def row_that(*ends: Outcome | BaseException) -> Row:
    """Each time it is run it ends with the next of these."""
    left = iter(ends)

    def end(_: Wanted) -> Outcome:
        one = next(left)
        if isinstance(one, BaseException):
            raise one
        return one

    return dataclasses.replace(ROW, run=end)


def ran(row: Row, folder: Path, *, resume: bool = False, version: str = "v1") -> dict[str, Any]:
    """What is known of it afterwards."""
    state = State(folder)
    run(row, 100, resume=resume, state=state, version=version)
    return State(folder).rows[row.name]


def shown(folder: Path, version: str = "v1") -> str:
    return table.section([ROW], State(folder).rows, {ROW.name: version})


def test_memory_that_rises_is_seen_through_noise() -> None:
    flat = slope_of([(t, 100 + t % 3) for t in range(100)])
    rising = slope_of([(t, 100 + 0.1 * t + t % 3) for t in range(100)])
    assert flat is not None
    assert rising is not None
    assert (flat.is_flat, rising.is_flat) == (True, False)
    assert rising.mb_an_hour == pytest.approx(360, rel=0.05)
    assert slope_of([(0, 1), (1, 2)]) is None


def test_what_was_done_of_other_code_is_done_again(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.begin(ROW, "v1", 100)
    assert not state.is_done(ROW, "v1")
    state.end(ROW, "v1", 100, HELD)
    again = State(tmp_path)
    assert (again.is_done(ROW, "v1"), again.is_done(ROW, "v2")) == (True, False)


def test_the_version_is_of_the_harness_too() -> None:
    tried = {file.name for file in tried_by(ROW)}
    assert tried >= {"kill_server.py", "load.yaml", "acknowledged_writes.py", "main.py", "http_front.py"}


def test_the_version_is_of_what_a_row_measures_with() -> None:
    tried = {file.relative_to(ROOT).as_posix() for file in tried_by(ROW)}
    assert tried >= {"bench/web/questions.py", "bench/targets.py", "bench/peers.py", "bench/intake.py"}
    assert all((ROOT / file).is_file() for file in tried)


def test_where_one_reader_is_tried_the_version_is_of_what_it_imports() -> None:
    """So that what ten minutes have found of it outlives a change of another part."""
    logs = dataclasses.replace(ROW, reader="bench.torture.fuzz.logs")
    tried = {file.relative_to(ROOT).as_posix() for file in tried_by(logs)}
    assert tried >= {
        "bench/torture/fuzz/logs.py",
        "bench/torture/fuzz/session.py",
        "bench/torture/slope.py",
        "src/trilens/__init__.py",
        "src/trilens/diagnose/logs/signs.yml",
        "src/trilens/model/errors.py",
    }
    assert not any(file.startswith(("src/trilens/serve", "src/trilens/promql")) for file in tried)
    assert "bench/torture/fuzz/promql.py" not in tried


def test_every_reader_is_a_module_of_its_own() -> None:
    readers = [row.reader for row in ROWS if row.reader is not None]
    assert len(readers) == len(TARGETS)
    assert all(reader.startswith("bench.torture.fuzz.") for reader in readers)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, "| not run |"),
        (HELD, "| held |"),
        (Outcome(False, 100, "x"), "| **missed** |"),
        (MISSED, "| **missed** |"),
        (Outcome(True, 3, "x"), "| not finished |"),
        (Outcome(False, 0, "no disk", was_run=False), "| not finished |"),
    ],
)
def test_the_table_says_how_far_a_row_has_come(tmp_path: Path, told: Outcome | None, expected: str) -> None:
    if told is not None:
        State(tmp_path).end(ROW, "v1", 100, told)
    assert expected in shown(tmp_path)
    if told is not None and told.done == 100:
        assert " * |" in shown(tmp_path, "v2"), "of other code, and not marked"


def test_an_error_of_several_lines_stays_in_its_cell(tmp_path: Path) -> None:
    ran(row_that(AssertionError("a | b\nc" + 3_000 * "x")), tmp_path)
    (line,) = [one for one in shown(tmp_path).splitlines() if one.startswith("| `row`")]
    assert "a \\| b c" in line
    assert len(line) < 1_000


def test_a_whole_result_stays_until_another_is_as_certain(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.end(ROW, "v1", 100, HELD)
    state.begin(ROW, "v1", 3)
    state.end(ROW, "v1", 3, Outcome(True, 3, "tried for a while"))
    assert state.is_done(ROW, "v1")
    assert state.rows["row"]["told"] == "all well"
    state.end(ROW, "v1", 40, MISSED)
    assert state.is_missed(ROW, "v1")
    state.end(ROW, "v1", 3, Outcome(True, 3, "tried for a while"))
    assert state.is_missed(ROW, "v1")
    state.end(ROW, "v1", 100, HELD)
    assert not state.is_missed(ROW, "v1")


@pytest.mark.parametrize(
    "error",
    [
        AssertionError("lost"),
        pytest.fail.Exception("lost"),
        httpx.ReadTimeout("lost"),
        ValueError("lost"),  # an answer that is no JSON
    ],
    ids=repr,
)
def test_what_was_missed_stays_missed_however_it_goes_on(tmp_path: Path, error: BaseException) -> None:
    row = row_that(error, HELD, HELD)
    ran(row, tmp_path)
    assert "**missed**" in shown(tmp_path)
    again = ran(row, tmp_path, resume=True)
    assert (again["passed"], again["told"]) == (False, "lost; all well")
    assert ran(row, tmp_path)["passed"], "it was begun anew"


@pytest.mark.parametrize(
    "error", [KeyError("data"), subprocess.TimeoutExpired("trilens doctor", 60)], ids=repr
)
def test_an_answer_that_is_another_or_none_is_a_miss(tmp_path: Path, error: BaseException) -> None:
    assert ran(row_that(error), tmp_path)["was_run"]
    assert "**missed**" in shown(tmp_path)


@pytest.mark.parametrize("error", [FileNotFoundError("strace"), pytest.skip.Exception("no mount")], ids=repr)
def test_what_could_not_be_run_says_nothing_of_trilens(tmp_path: Path, error: BaseException) -> None:
    row = row_that(error, HELD)
    assert not State(tmp_path).is_missed(row, "v1")
    assert "could not be run" in ran(row, tmp_path)["told"]
    assert "| not finished |" in shown(tmp_path)
    assert ran(row, tmp_path, resume=True)["passed"]


def test_what_an_earlier_run_has_left_does_not_count_in_one_that_began_anew(tmp_path: Path) -> None:
    def left(resume: bool, version: str) -> list[str]:
        attempt = Attempt(tmp_path / "row")
        attempt.begin(version, resume=resume)
        found = sorted(one.name for one in attempt.folder.iterdir() if one.name != "version")
        (attempt.folder / "tally.json").touch()
        for folder in ("data-1", "corpus-bytes"):
            (attempt.folder / folder).mkdir(exist_ok=True)
        return found

    assert left(True, "v1") == []
    assert left(True, "v1") == ["corpus-bytes", "data-1", "tally.json"]
    assert left(True, "v2") == ["corpus-bytes"], "of other code"
    assert left(False, "v2") == ["corpus-bytes"], "not resumed"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """Runs the command with one row, and tells the tables that it has written."""

    def called(row: Row, *arguments: str) -> list[str]:
        written: list[str] = []
        handler = signal.getsignal(signal.SIGTERM)
        monkeypatch.setattr(main_module, "ROWS", (row,))
        monkeypatch.setattr(main_module, "BY_NAME", {row.name: row})
        monkeypatch.setattr(main_module, "OUT", tmp_path / "out")
        monkeypatch.setattr(main_module, "KNOWN", tmp_path / "known.json")
        monkeypatch.setattr(main_module, "TRIALS", tmp_path / "trials")
        monkeypatch.setattr(main_module, "code_version", lambda _row: "v1")
        monkeypatch.setattr(table, "write", written.append)
        monkeypatch.setattr(sys, "argv", ["torture", *arguments])
        try:
            main_module.main()
        finally:
            signal.signal(signal.SIGTERM, handler)
        return written

    return called


def test_the_table_is_written_after_each_row_and_when_none_is_left(program: Callable[..., list[str]]) -> None:
    row = row_that(HELD)
    assert "| held |" in program(row)[-1]
    assert "| held |" in program(row)[-1], "nothing was left to run"


def test_a_trial_leaves_what_is_known_as_it_is(program: Callable[..., list[str]], tmp_path: Path) -> None:
    program(row_that(HELD))
    assert program(row_that(MISSED), "row", "--no-write") == []
    assert State(tmp_path / "out", tmp_path / "known.json").rows["row"]["passed"]
    assert not State(tmp_path / "trials").rows["row"]["passed"]


def test_who_is_told_to_end_puts_everything_right_first(program: Callable[..., list[str]]) -> None:
    ended = []

    def killed(_: Wanted) -> Outcome:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            ended.append("the mounts")
        return HELD

    with pytest.raises(SystemExit):
        program(dataclasses.replace(ROW, run=killed))
    assert ended == ["the mounts"]


def test_times_count_when_they_were_looked_at(tmp_path: Path) -> None:
    with Tally(Wanted(tmp_path, 2)).session() as first:
        first.done_once()
        first.add("writes", 5)
        first.keep()
        first.done_once()  # and interrupted before anybody has looked
    tally = Tally(Wanted(tmp_path, 2))
    assert (tally.times, tally.counts["writes"], tally.is_over) == (1, 5, False)
    with tally.session() as second:
        assert (second.begin, second.left) == (1, 1)
        assert not first.folder.exists(), "a session has data of its own"


def test_data_in_which_something_was_missed_is_kept(tmp_path: Path) -> None:
    tally = Tally(Wanted(tmp_path, 2))
    with pytest.raises(AssertionError), tally.session() as session:
        (session.folder / "log").touch()
        raise AssertionError("lost")
    with Tally(Wanted(tmp_path, 2)).session():
        assert [*tmp_path.glob("missed-*/log")]


def test_a_row_of_times_counts_each_one_and_keeps_its_figures(tmp_path: Path) -> None:
    met: list[int] = []

    def meet(_: Path, numbers: range) -> Iterator[dict[str, int]]:
        for number in numbers:
            if len(met) == 2:
                raise KeyboardInterrupt
            met.append(number)
            yield {"writes": 10}

    disk = machine._Machine("disk", "", "", meet, 3, "{writes} writes")  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        machine._run(disk, Wanted(tmp_path, 3))
    met.remove(0)
    for _ in range(2):  # the second finds nothing left to do
        assert machine._run(disk, Wanted(tmp_path, 3)) == Outcome(True, 3, "30 writes")
    assert met == [1, 2]


def test_a_fault_that_was_tried_for_a_while_is_met_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[float] = []
    clock_s = itertools.count(step=1_000)

    class Small(Dependency):
        name, meanwhile, has_caught_up = "x", lambda _: None, lambda _: True

        @classmethod
        def begin(cls, _: object) -> Small:
            return cls("", {})

    def met(_: object, _fault: Fault, seconds: float) -> str:
        lengths.append(seconds)
        return "well"

    monkeypatch.setattr(away, "_met", met)
    monkeypatch.setattr(away.time, "monotonic", lambda: next(clock_s))
    assert away._run(Small, Wanted(tmp_path, 50)).done == 50
    assert away._run(Small, Wanted(tmp_path, 600)).done == 600
    assert away._run(Small, Wanted(tmp_path, 600)).done == 600, "nothing is left to do"
    assert lengths == [10.0] * 5 + [120.0] * 5


class Clock:
    """Time passes where somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(away.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(away.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Away(Dependency):
    """Said to be away at some looks of those that come one after the other, and well at others."""

    name, told_s = "x", 5.0

    def __init__(self, said: str, *, believed: str = "", well: bool = True) -> None:
        """A look for each character: + where it is said, or believed; the last one stays."""
        super().__init__("", {})
        self._said, self._believed, self._well = said, believed, well
        self.looks = 0

    @classmethod
    def begin(cls, _: object) -> Away:
        return cls("+")

    def meets(self, fault: Fault) -> None:
        pass

    def meanwhile(self) -> None:
        pass

    def check_the_rest(self) -> None:
        self.looks += 1

    def problems(self) -> list[str]:
        return []

    def is_well(self) -> bool:
        return self._well

    def unsaid(self) -> set[str]:
        return set() if self._said[min(self.looks, len(self._said)) - 1] == "+" else {"x"}

    def believed(self) -> set[str]:
        return {"x"} if self._believed[self.looks - 1 : self.looks] == "+" else set()

    def has_caught_up(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("fault", "dependency", "seen"),
    [
        (Fault.HANG, Away("--+"), "said after 2 s, the rest worked 10 times of 10"),
        (Fault.HANG, Away("--+-+"), "in 1 of 10 looks no more"),
        (Fault.HANG, Away("-" * 24 + "+"), "said after 24 s, the rest worked 25 times of 25"),
        (Fault.HANG, Away("-"), "nobody says so after 25 s: x"),
        (Fault.HANG, Away("+", well=False), "said to be away before it is"),
        (Fault.GARBAGE, Away("+--+", believed=".++."), "said after 0 s, the rest worked 10 times of 10"),
        (Fault.GARBAGE, Away("+--+", believed=".+.."), "in 1 of 10 looks no more"),
        (Fault.GARBAGE, Away("-", believed="+" * 99), "nobody says so after 25 s: x"),
        (Fault.TRICKLE, Away("-"), "worked on, the rest worked 10 times of 10"),
        (Fault.TRICKLE, Away("-+-"), "said after 1 s, the rest worked 10 times of 10"),
    ],
)
def test_what_is_missing_is_said_soon_and_to_the_end_and_not_before(
    clock: Clock, fault: Fault, dependency: Away, seen: str
) -> None:
    assert clock.now_s == 0
    try:
        assert away._meet(dependency, fault, 10).startswith(seen)
    except AssertionError as e:
        assert seen in str(e)


def test_one_answer_that_fails_is_no_end_of_patience(clock: Clock) -> None:
    asked = iter((httpx.ReadTimeout("slow"), httpx.HTTPStatusError("", request=None, response=None), True))  # type: ignore[arg-type]

    def ask() -> bool:
        found = next(asked)
        if isinstance(found, Exception):
            raise found
        return found

    soon(ask, "it does not come")
    with pytest.raises(AssertionError, match="it does not come"):
        soon(lambda: False, "it does not come")
    assert clock.now_s > 200


def test_one_that_does_not_come_back_is_told_with_what_was_seen_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[Fault] = []

    def meet(_: object, fault: Fault, _seconds: float) -> str:
        met.append(fault)
        if len(met) > 1:
            raise AssertionError("it does not come back")
        time.sleep(0.001)
        return "well"

    monkeypatch.setattr(away, "_met", meet)
    found = away._run(Away, Wanted(tmp_path, 50))
    assert not found.passed
    assert found.told == f"{met[0]}: well; MISSED: it does not come back"
    assert [*tmp_path.glob("missed-*")]


def test_a_defect_in_the_servers_log_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(away, "_met", lambda *_: "well")
    monkeypatch.setattr(
        Surroundings, "log", lambda _: "it failed\nTraceback (most recent call last):\n  File"
    )
    assert not away._run(Away, Wanted(tmp_path, 50)).passed


def test_what_was_acknowledged_is_looked_for_in_what_is_kept() -> None:
    writer = acknowledged_writes.Writer(0, series=2)
    assert writer.lost([]) == [], "nothing was"
    writer.acknowledged = [1, 2, 5]
    assert writer.lost([{1, 2, 3, 5}, {1, 5}]) == [2]
    with pytest.raises(AssertionError, match="1 of 2 series"):
        writer.lost([{1, 2, 5}])


def test_records_are_sent_until_they_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[int]] = []
    answers = iter((503, 200, None, 200))

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append([json.loads(line)["seq"] for line in request.content.splitlines()])
        status = next(answers)
        if status is None:
            raise httpx.ReadTimeout("slow")
        return httpx.Response(status, json={"data": {"seq": sent[-1][-1]}})

    program = outbox.Outbox("http://x", 1.0)
    monkeypatch.setattr(
        program, "_client", httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer))
    )
    assert [program.send() for _ in range(4)] == [503, 200, None, 200]
    assert sent == [[0], [0, 1], [2], [2, 3]]
    assert program.is_empty
    assert program.not_once([*range(12)]) == []
    assert program.not_once([0, *range(11)]) == [0, 11]


def test_writes_are_of_now_and_none_has_the_time_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    monkeypatch.setattr(acknowledged_writes, "encode", lambda rows: times.append(rows[0][1]) or b"")
    answered = iter((204, 204, 400, 204))
    transport = httpx.MockTransport(lambda _: httpx.Response(next(answered)))
    writer = acknowledged_writes.Writer(0)
    with httpx.Client(base_url="http://x", transport=transport) as client:
        for now_ms in (5_000, 5_000, 4_000, 7_200_000):
            monkeypatch.setattr(acknowledged_writes.time, "time_ns", lambda now_ms=now_ms: now_ms * 1_000_000)
            writer.batch(client)
    assert times == [5_000, 5_001, 5_002, 7_200_000]
    assert (writer.acknowledged, len(writer.refused)) == ([0, 1, 3], 1)


def test_an_alert_is_told_again_only_after_a_kill() -> None:
    alarms = kill_server._Alarms(HttpReceiver())
    for life in (1, 2, 5):
        alarms.life = life
        alarms._told_of("n-0")
    assert alarms.again == 2
    with pytest.raises(AssertionError, match="told again"):
        alarms._told_of("n-0")
    alarms.life = 9
    with pytest.raises(AssertionError, match="told again"):
        alarms._told_of("n-0")


def test_sessions_of_a_fuzzer_add_up_and_a_finding_fails_it(tmp_path: Path) -> None:
    lines = [
        '{"form":"bytes","process":1,"t_s":1,"inputs":10,"taken":2,"slowest_s":0.5,"rss_mb":50}',
        '{"form":"bytes","process":1,"t_s":2,"inputs":20,"taken":4,"slowest_s":0.5,"rss_mb":50}',
        '{"form":"bytes","process":2,"t_s":3,"inputs":7,"taken":1,"slowest_s":0.1,"rss_mb":50}',
    ]
    (tmp_path / "progress.jsonl").write_text("\n".join(lines))
    (tmp_path / "findings").mkdir()
    found = outcome(tmp_path)
    assert (found.seconds, found.inputs, found.taken, found.slowest_s, found.passed) == (5, 27, 5, 0.5, True)
    (tmp_path / "findings" / "ValueError-x-1.txt").touch()
    assert not outcome(tmp_path).passed
    assert not dataclasses.replace(found, crashes=1).passed


def test_a_fuzzer_that_crashes_again_and_again_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def crash(_name: str, form: str, folder: Path, _seconds: float) -> bool:
        begun.append(form)
        (folder / "findings").mkdir(exist_ok=True)
        (folder / f"latest-{form}").write_bytes(b"what it read last")
        return False

    monkeypatch.setattr(campaign, "_session", crash)
    found = campaign.fuzz("promql", tmp_path, 600)
    assert (len(begun), found.crashes, found.passed) == (5, 5, False)
    assert (tmp_path / "findings" / "crash-1.input").read_bytes() == b"what it read last"


SLOW_TO_BEGIN = """
import sys, time
from bench.torture.fuzz import session
from bench.torture.fuzz.target import Target
from hypothesis import strategies as st

began = []

def slowly(data):
    if not began:
        began.append(time.sleep(1.5))
    return data

target = Target("slow", "", lambda data: None, lambda: [b""], lambda: st.binary().map(slowly))
session.BY_NAME = {"slow": target}
session.main()
"""


def test_what_takes_long_to_draw_its_first_input_is_no_crash(tmp_path: Path) -> None:
    """libFuzzer's own clock, which runs meanwhile, ends nothing."""
    program = [sys.executable, "-c", SLOW_TO_BEGIN, "slow", "shaped", str(tmp_path), "3"]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert [*(tmp_path / "findings").iterdir()] == []


def test_memory_is_that_of_the_server_that_lived_longest(tmp_path: Path) -> None:
    assert http_api.memory_of(tmp_path) is None
    for name, rise in (("1", 0.0), ("2", 5.0)):
        points = [(5.0 * at, 100 + rise * at) for at in range(20 if rise else 10)]
        (tmp_path / f"memory-{name}.json").write_text(json.dumps(points))
    found = http_api.memory_of(tmp_path)
    assert found is not None
    assert not found.is_flat
    assert found.seconds < 60, "it warms up first"


class OwnMetrics:
    """As a server tells them, with a recent window of so many bytes."""

    def __init__(self, recent: float) -> None:
        self._recent = int(recent)

    def collect(self) -> Iterator[Metric]:
        stats = StoreStats(1, 0, 0.0, 0, self._recent, None, 0)
        return store_metrics(stats, None, StoreHealth(True, None, ()))

    def text(self) -> str:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry).decode()


def test_the_recent_window_is_no_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "_LOOK_S", 0.01)
    whole = psutil.Process().memory_info()

    def looked(recent: float) -> float:
        folder = tmp_path / f"{recent:g}"
        folder.mkdir()
        server = HttpTarget(OwnMetrics(recent).text())
        with server, http_api.Memory(psutil.Process(), f"http://{server.address}", folder):
            until(lambda: any(folder.iterdir()), "nothing is written down")
        return float(json.loads(next(folder.iterdir()).read_text())[-1][1])

    assert 0 < looked(0) < whole.rss / 1e6
    assert looked(1) - looked(1e9) == pytest.approx(1_000, abs=100)


def test_a_schema_that_cannot_be_had_is_a_miss_and_stands_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(command: list[str], **_: Any) -> None:
        (report,) = (one.partition("=")[2] for one in command if one.startswith("--report-json-path="))
        Path(report).write_text(json.dumps({"operations": None, "running_time": None}))

    monkeypatch.setattr(http_api.subprocess, "run", asked)
    with pytest.raises(AssertionError, match="schema could not be had"):
        http_api._session("http://x", tmp_path, 10)
    assert not [*tmp_path.glob("session-*")]


@pytest.mark.parametrize(("length", "passed"), [(600, False), (60, True)])
def test_a_whole_run_that_has_not_seen_memory_has_not_held(
    tmp_path: Path, length: float, *, passed: bool
) -> None:
    told = {
        "running_time": length,
        "failures": [],
        "errors": [],
        "test_cases": {"generated": 9},
        "operations": {"tested": 2, "total": 2},
    }
    (tmp_path / "session-1.json").write_text(json.dumps(told))
    found = http_api.HTTP_API.run(Wanted(tmp_path, length))
    assert found.passed is passed
    assert "too short to tell" in found.told


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, second, other = ([*islice(mutations([b"abc", b"xyz"], seed), 200)] for seed in (1, 1, 2))
    assert first == second != other
    assert len(set(first)) > 100


def measured(**more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "seconds": 3_600.0,
        "memory": [(60.0 * at, 1_000.0) for at in range(60)],
        "cores": 1.0,
        "counts": counted(),
        "series": 300_000.0,
        "down": 0.0,
        "expected scrapes": 240.0,
        "ranks": 1_024.0,
        "people ended with": 0,
        "took_ms": {"Now": [10.0] * 1_000, "Money": [10.0] * 10},
        "failures": {},
    }
    return known | more


def counted(**more: float) -> dict[str, float]:
    known = {"scrapes": 240.0, "steps": 1_024 * 3_600 / 2.17}
    known |= {"passes over rules": 1_000.0, "looks of detectors": 720.0}
    return dict.fromkeys(load._COUNTED, 0.0) | known | more


@pytest.mark.parametrize(
    ("more", "missed"),
    [
        ({}, ""),
        ({"took_ms": {"Now": [10.0] * 1_000, "Money": [900.0] * 2}}, "Money was slow"),
        ({"took_ms": {}}, "no page was slow"),
        ({"failures": {"Now: 500": 1}}, "answers failed"),
        ({"people ended with": 1}, "not everybody asked to the end"),
        ({"memory": [(60.0 * at, 1_000.0 + 5 * at) for at in range(60)]}, "memory grew"),
        ({"series": 200_000.0}, "there were too few series"),
        ({"ranks": 1_000.0}, "there were too few ranks"),
        ({"counts": counted(dropped=1.0)}, "something was dropped"),
        ({"counts": counted(scrapes=230.0)}, "scrapes were left out"),
        ({"counts": counted(steps=1_024 * 1_400.0)}, "steps were not taken"),
        ({"counts": counted(**{"failed rules": 1})}, "rules failed"),
        ({"counts": counted(**{"missed passes over rules": 11})}, "rules were late"),
        ({"counts": counted(**{"failed detectors": 1})}, "detectors failed"),
        ({"counts": counted(**{"missed looks of detectors": 8})}, "detectors were late"),
        ({"counts": counted(**{"looks of detectors": 0})}, "detectors were late"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_load_that_missed_a_goal_is_missed(more: dict[str, Any], missed: str) -> None:
    found = load._outcome(measured(**more))
    assert found.passed == (not missed)
    assert found.told.startswith(missed)


def test_a_load_is_of_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def measure(wanted: Wanted) -> dict[str, Any]:
        asked.append(wanted.length)
        return measured(seconds=wanted.length)

    monkeypatch.setattr(load, "_measure", measure)
    assert [load._run(Wanted(tmp_path, length)).done for length in (600, 3_600, 3_600)] == [600, 3_600, 3_600]
    assert asked == [600, 3_600], (
        "ten minutes are no part of an hour, and an hour that is there is not done again"
    )


def test_every_row_is_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "torture.md").read_text(encoding="utf-8")
    missing = [row.name for row in ROWS if f"`{row.name}`" not in text and not row.name.startswith("fuzz-")]
    targets = [row.name.removeprefix("fuzz-") for row in ROWS if row.name.startswith("fuzz-")]
    assert missing + [name for name in targets if name != "api" and f"`{name}`" not in text] == []
