"""A run from `trilens.init` to `finish`, with what its server was told: also when the program is wrong."""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import pickle
import socket
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import trilens
from sdk_runs import begun
from trilens.collect.runs.wire import read_lines
from trilens.sdk import background as background_module
from trilens.sdk.exposition import MetricsPort
from trilens.sdk.guard import Guard
from trilens.sdk.moments import size_of
from trilens.sdk.options import read_options

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.sdk.run import Run


def train(run: Run, steps: int = 2) -> None:
    for _ in range(steps):
        with run.step(samples=4):
            with run.phase("forward"):
                pass
            run.log(loss=0.5)


def test_a_run_is_told_whole(tmp_path: Path) -> None:
    config = {"lr": 3e-4, "layers": (1, 2)}
    with begun(tmp_path, "sweep", name="a", config=config, tags={"t": "1"}, total_steps=9) as (run, told):
        train(run)
    facts = told.last("facts")
    assert (facts["experiment"], facts["name"], facts["total_steps"]) == ("sweep", "a", 9)
    assert (facts["config"], facts["tags"]) == ({"lr": 3e-4, "layers": [1, 2]}, {"t": "1"})
    assert [step["step"] for step in told.steps()] == [0, 1]
    assert told.steps()[0]["values"] == {"loss": 0.5}
    assert set(told.steps()[0]["phases"]) == {"forward"}
    process = told.last("process")
    assert (process["pid"], process["world_size"]) == (os.getpid(), 1)
    assert process["versions"]["trilens"] == trilens.__version__
    assert told.last("end")["how"] == "finished"


def test_numbers_of_every_kind_are_logged_and_the_rest_is_counted(tmp_path: Path) -> None:
    class Scalar:
        def __float__(self) -> float:
            return 2.5

    class Broken:
        def __float__(self) -> float:
            raise RuntimeError("no")

    with begun(tmp_path) as (run, told):
        with run.step():
            run.log({"train/loss": 1, "flag": True, "scalar": Scalar(), 7: 1.0})
            run.log(nan=float("nan"), inf=float("-inf"))
            run.log(text="0.5", none=None, broken=Broken(), huge=10**400, nested={"a": 1})
            run.log(["loss"])  # type: ignore[arg-type]
        lost = run.recorder.guard.counts()
    (step,) = told.steps()
    assert step["values"] == {
        "train/loss": 1.0,
        "flag": 1.0,
        "scalar": 2.5,
        "7": 1.0,
        "nan": "NaN",
        "inf": "-Infinity",
    }
    assert lost == {"value": 6}
    assert [note["data"] for note in told.section("notes") if note["kind"] == "nonfinite"] == [
        {"value": "nan"},
        {"value": "inf"},
    ]


def test_what_is_lost_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "trilens"), begun(tmp_path) as (run, _):
        for _ in range(5):
            with run.step():
                run.log(loss="high")
        assert run.recorder.guard.counts() == {"value": 5}
    assert [record.getMessage() for record in caplog.records] == [
        "trilens: lost value: loss='high' is not a number. The program runs on; more is only counted"
    ]


def test_a_handler_of_the_programs_that_fails_does_not_break_it(tmp_path: Path) -> None:
    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no disk")

    handler = Failing()
    logging.getLogger("trilens").addHandler(handler)
    try:
        with begun(tmp_path) as (run, _):
            run.log(loss="high")
            assert run.recorder.guard.counts() == {"value": 1, "log line": 1}
    finally:
        logging.getLogger("trilens").removeHandler(handler)


def test_checkpoints_are_told_with_size_time_and_failure(tmp_path: Path) -> None:
    file, folder = tmp_path / "model.pt", tmp_path / "sharded"
    file.write_bytes(b"x" * 100)
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"x" * 10)
    (folder / "deep" / "b").write_bytes(b"x" * 5)
    with begun(tmp_path) as (run, told):
        train(run, 3)
        run.checkpoint(file)
        with run.checkpoint(folder, 2):
            assert run.recorder.activity == "checkpoint"
        with pytest.raises(OSError, match="full"), run.checkpoint(tmp_path / "new", 2):
            raise OSError("disk is full")
        run.checkpoint("s3://bucket/model", "two")  # type: ignore[arg-type]
        text = run.recorder.metrics
    plain, timed, failed, remote = told.section("checkpoints")
    assert (plain["step"], plain["bytes"], plain["us"], plain["ok"]) == (2, 100, None, True)
    assert (timed["bytes"], timed["ok"]) == (15, True)
    assert timed["us"] is not None
    assert (failed["ok"], failed["error"], failed["bytes"]) == (False, "OSError: disk is full", None)
    assert (remote["bytes"], remote["step"]) == (None, 3)
    assert [one["n"] for one in told.section("checkpoints")] == [0, 1, 2, 3]
    shown = {name: next(iter(family.series.values())) for name, family in text.families().items()}
    assert shown["training_checkpoint_writes_total"] == 3
    assert shown["training_checkpoint_failures_total"] == 1
    assert shown["training_checkpoint_size_bytes"] == 15


def test_validation_is_told_by_a_call_or_by_a_block(tmp_path: Path) -> None:
    with begun(tmp_path) as (run, told):
        train(run)
        run.validation({"top/5": 0.9}, loss=0.25)
        with run.validation(step=7) as held_back:
            assert run.recorder.activity == "validation"
            held_back.log(loss=float("inf"))
        run.validation(loss="good")
    one, other, empty = told.section("validations")
    assert (one["step"], one["values"], one["us"]) == (1, {"top/5": 0.9, "loss": 0.25}, None)
    assert (other["step"], other["values"]) == (7, {"loss": "Infinity"})
    assert other["us"] is not None
    assert empty["values"] == {}


def test_a_resumed_run_goes_on_after_its_checkpoint(tmp_path: Path) -> None:
    with begun(tmp_path) as (run, told):
        run.resumed(41, "ckpt/41")
        train(run, 1)
    (loaded,) = told.section("checkpoints")
    assert (loaded["step"], loaded["path"], loaded["loaded"]) == (41, "ckpt/41", True)
    assert [step["step"] for step in told.steps()] == [42]
    assert [note["kind"] for note in told.section("notes")] == ["resumed"]


def test_an_exception_in_the_loop_passes_untouched_and_is_told(tmp_path: Path) -> None:
    mine = ValueError("loss is wrong")
    with begun(tmp_path) as (run, told):
        with pytest.raises(ValueError) as caught, run, run.step(), run.phase("backward"):
            raise mine
        assert caught.value is mine
    assert [note["text"] for note in told.section("notes")] == [
        "step 0 ended in backward by ValueError: loss is wrong"
    ]
    end = told.last("end")
    assert (end["how"], end["error"]) == ("failed", "ValueError: loss is wrong")
    assert told.steps() == []


@pytest.mark.parametrize("at_once", [1, 128])
def test_a_program_that_goes_on_after_an_exception_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(background_module, "SLICE", at_once)
    with begun(tmp_path) as (run, told):
        train(run, 1)
        for _ in range(3):
            with pytest.raises(ValueError), run.step():
                run.batch(ids=[1, 2], dataset="d")
                raise ValueError
            train(run, 2)
        run.finish()
        assert run.recorder.guard.counts() == {}
    assert [step["n"] for step in told.steps()] == [0, 2, 3, 5, 6, 8, 9]
    assert [batch["n"] for batch in told.section("batches")] == [1, 4, 7]


@pytest.mark.parametrize(("status", "how"), [(0, "finished"), (None, "finished"), (2, "failed")])
def test_a_block_that_is_left_by_sys_exit_ends_as_the_program_does(
    tmp_path: Path, status: int | None, how: str
) -> None:
    with begun(tmp_path) as (run, told), pytest.raises(SystemExit), run:
        sys.exit(status)
    assert told.last("end")["how"] == how


def test_a_background_thread_that_hangs_does_not_keep_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "_PATIENCE_S", 0.05)
    monkeypatch.setenv("TRILENS_INTERVAL_S", "0.1")
    hangs, may_go = threading.Event(), threading.Event()

    def hang() -> None:  # as a look at a checkpoint does, on a file system that does not answer
        hangs.set()
        may_go.wait(60)

    with begun(tmp_path) as (run, _):
        run.recorder.on_tick(hang)
        assert hangs.wait(20)
        run.finish()
        assert run.recorder.guard.counts() == {"end": 1}
    may_go.set()


def test_a_folder_that_takes_long_to_look_through_has_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert size_of(str(tmp_path)) == 1
    monkeypatch.setattr("trilens.sdk.moments._MOST_SIZING_NS", -1)
    assert size_of(str(tmp_path)) is None


def test_whatever_a_program_hands_over_the_server_reads_the_rest(tmp_path: Path) -> None:
    """A batch that it cannot read would be lost, with all steps in it."""
    half = "\udcff"  # of a file's name that is no text
    config = {"seed": 10**5000, half: half, "large": 2**80, "long": ["x" * 2_000] * 1_000}
    with begun(
        tmp_path,
        "e" * 9_000,
        name=half,
        config=config,
        tags={"a": half},
        total_steps=10**20,  # type: ignore[dict-item]
    ) as (run, told):
        run.describe(experiment=7, total_steps="many", tags=5)  # type: ignore[arg-type]
        for number in range(3):
            with run.step(samples=-1, tokens=2**70):
                run.log({"": 1.0, "x" * 300: 1.0, half: 1.0, f"loss {number}": 1.0})
                run.batch(ids=[-(2**63), 2**63 - 1], epoch="one", size=-3)  # type: ignore[arg-type]
                run.batch(ids=["n" * 5_000], dataset="d" * 5_000, shard=half)
                run.batch(ids=[half], epoch=-1)
                with run.phase(""), run.phase("p" * 300):
                    pass
        run.recorder.set_epoch(-4)
        run.checkpoint(f"/{half}/" + "x" * 5_000)
        run.checkpoint(b"/bytes")
        run.validation({"": 1.0, "loss": 0.5, "y" * 300: 0.5})
        train(run, 1)
    assert [step["step"] for step in told.steps()] == [0, 1, 2, 3]
    lines = [json.dumps(batch, ensure_ascii=False).encode() for batch in told.batches()]
    reading = read_lines(b"\n".join(lines))
    assert reading.refusal is None
    assert len(reading.lines) == len(lines)
    assert told.last("facts")["config"]["seed"] == "a number of 16610 bits"
    assert [one["values"] for one in told.section("validations")] == [{"loss": 0.5}]
    assert told.section("batches")[0]["ids"] == [-(2**63), 2**63 - 1]


def test_batches_of_many_samples_are_told_in_several_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_module, "SLICE_IDS", 10)
    with begun(tmp_path) as (run, told), run.recorder._lock:  # the background thread takes all at once
        for size in (4, 4, 4, 25, 1):
            run.batch(ids=list(range(size)))
            train(run, 1)
    sizes = [[one["size"] for one in batch["batches"]] for batch in told.batches() if "batches" in batch]
    assert sizes == [[4, 4], [4], [25], [1]]
    assert [step["n"] for step in told.steps()] == [0, 1, 2, 3, 4]
    assert run.recorder.guard.counts() == {}


@pytest.mark.parametrize("token", ["se\ncret", "s\u00e9cret"], ids=["line feed", "accent"])
def test_a_token_that_no_header_holds_is_left_out_and_never_shown(
    tmp_path: Path, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with begun(tmp_path, token=token) as (run, _):
        assert run.recorder.options.token is None
    assert run.recorder.guard.counts() == {"option": 1}
    assert "cret" not in caplog.text


def test_the_line_feed_at_the_end_of_a_secret_is_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRILENS_TOKEN", "secret\n")
    with begun(tmp_path) as (run, told):
        assert run.recorder.options.token == "secret"
    assert told.tokens() == {"Bearer secret"}


class Stubborn:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "server",
    ["http://", "http://[::1", "http://host:port", "ftp://host", "http://:9333", Stubborn()],
    ids=["no host", "open bracket", "no number", "not http", "only a port", "no text"],
)
def test_a_server_that_cannot_be_one_is_said_at_once(server: Any) -> None:
    guard = Guard()
    assert read_options(guard, {}, server=server, experiment=Stubborn()).server is None
    assert guard.counts() == {"option": 2}


def test_a_finished_run_takes_nothing_and_says_so(tmp_path: Path) -> None:
    with begun(tmp_path) as (run, told):
        train(run)
        run.finish()
        run.finish(error="not any more")
        train(run, 3)
        run.log(loss=1.0)
        run.checkpoint("x")
        run.validation(loss=1.0)
        list(run.data([1, 2]))
        assert run.recorder.guard.counts() == {"step": 4}
    assert len(told.steps()) == 2
    assert told.last("end")["how"] == "finished"
    assert told.section("checkpoints") == []


def test_a_disabled_run_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILENS_DISABLED", "1")
    run = trilens.init("e", spool=tmp_path / "spool")
    train(run)
    with run.checkpoint("x"), run.validation():
        pass
    assert list(run.data([1, 2])) == [1, 2]
    run.batch(ids=[1])
    run.resumed(3)
    run.describe(name="x")
    run.watch(object())
    run.export_to(object())
    run.finish()
    assert run.metrics_address is None
    assert not (tmp_path / "spool").exists()
    assert trilens.latest_run() is not run
    assert trilens.init("e", enabled=False).metrics_address is None


def test_a_copy_of_a_run_is_silent(tmp_path: Path) -> None:
    """A dataset that holds the run is sent to workers; a configuration is copied."""
    with begun(tmp_path) as (run, told):
        for copied in (pickle.loads(pickle.dumps(run)), copy.deepcopy({"run": run})["run"]):
            train(copied)
            copied.finish()
            assert copied.metrics_address is None
        train(run, 1)
    assert len(told.steps()) == 1


def test_two_runs_in_one_process_are_two(tmp_path: Path) -> None:
    with begun(tmp_path / "a", "a") as (one, told_one), begun(tmp_path / "b", "b") as (two, told_two):
        assert one.id != two.id
        assert one.metrics_address != two.metrics_address
        assert trilens.latest_run() is two
        train(one, 1)
        train(two, 2)
        two.finish()
        assert trilens.latest_run() is one
    assert (len(told_one.steps()), len(told_two.steps())) == (1, 2)


def test_ranks_of_one_node_take_ports_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        base = taken.getsockname()[1]
        with begun(tmp_path, metrics=f"127.0.0.1:{base}") as (run, _):
            address = run.metrics_address
            assert address is not None
            assert address != f"127.0.0.1:{base}"
            assert run.recorder.guard.counts() == {}
    monkeypatch.setenv("LOCAL_RANK", "3")
    wanted: list[int] = []
    monkeypatch.setattr(MetricsPort, "__init__", lambda self, text, host, port, guard: wanted.append(port))
    monkeypatch.setattr(MetricsPort, "address", None, raising=False)
    monkeypatch.setattr(MetricsPort, "close", lambda self: None)
    with begun(tmp_path, metrics="127.0.0.1:9500"):
        assert wanted == [9503]


def test_options_that_cannot_be_used_are_counted_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRILENS_SPOOL_BYTES", "much")
    monkeypatch.setenv("TRILENS_TOKEN_FILE", str(tmp_path / "none"))
    with begun(tmp_path, run_id="no spaces please", total_steps="many", flops_per_step=-1) as (run, told):
        lost = run.recorder.guard.counts()
        assert " " not in run.id
        train(run)
    assert lost == {"option": 5}
    assert len(told.steps()) == 2
    assert told.last("facts")["total_steps"] is None


@dataclass
class Configured:
    lr: float
    name: str


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (argparse.Namespace(lr=0.1, path=os.path), {"lr": 0.1, "path": str(os.path)}),
        (Configured(0.1, "x"), {"lr": 0.1, "name": "x"}),
        ({"nan": float("nan"), 3: {"deep": {1}}}, {"nan": "nan", "3": {"deep": [1]}}),
        (7, {}),
    ],
    ids=["namespace", "dataclass", "odd values", "no names"],
)
def test_a_configuration_of_any_kind_is_kept_readable(tmp_path: Path, config: Any, kept: Any) -> None:
    with begun(tmp_path, config=config) as (_, told):
        pass
    assert told.last("facts")["config"] == kept


def test_a_configuration_that_contains_itself_ends(tmp_path: Path) -> None:
    config: dict[str, Any] = {"lr": 1}
    config["self"] = config
    with begun(tmp_path, config=config) as (_, told):
        pass
    assert told.last("facts")["config"]["lr"] == 1


def test_names_that_a_program_makes_up_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_module, "MOST_VALUE_NAMES", 3)
    monkeypatch.setattr("trilens.sdk.run.MOST_PHASES", 2)
    with begun(tmp_path) as (run, told):
        for i in range(5):
            with run.step():
                run.log({f"value {i}": 1.0})
                with run.phase(f"phase {i}"):
                    pass
                with run.phase(["no", "text"]):  # type: ignore[arg-type]
                    pass
        run.finish()
        lost = run.recorder.guard.counts()
    assert [len(step.get("values", ())) for step in told.steps()] == [1, 1, 1, 0, 0]
    assert {name for step in told.steps() for name in step["phases"]} == {
        "phase 0",
        "['no', 'text']",
        "other",
    }
    assert (lost["value"], lost["phase name"]) == (2, 9)


def test_more_steps_than_can_be_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.sdk.recorder.KEPT_STEPS", 10)
    with begun(tmp_path) as (run, told), run.recorder._lock:  # the background thread cannot take any
        train(run, 25)
    assert [step["n"] for step in told.steps()] == list(range(15, 25))
    assert run.recorder.guard.counts() == {"step": 15}


def test_init_that_fails_inside_leaves_a_program_that_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("trilens.sdk.start.identify", broken)
    run = trilens.init("e")
    train(run)
    run.finish()
    assert [record.getMessage() for record in caplog.records] == [
        "trilens: lost run: RuntimeError: unexpected. The program runs on; more is only counted"
    ]


def test_the_hooks_of_the_program_are_chained() -> None:
    assert sys.excepthook is not sys.__excepthook__
    with pytest.raises(SystemExit) as left:
        sys.exit(7)
    assert left.value.code == 7
