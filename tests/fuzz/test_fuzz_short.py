"""What is read from outside, for a second or two each and by a fixed seed; `python -m bench.torture fuzz` has
it for as long as one wants."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from inspect import getsource
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from bench.torture.fuzz.bundle import BUNDLE
from bench.torture.fuzz.mutation import mutations
from bench.torture.fuzz.otlp import TRAINING
from bench.torture.fuzz.target import Forbidden, Target, TooSlow, survives
from bench.torture.fuzz.targets import TARGETS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from long_form import rounds
from trilens.collect.otlp import training_spans as spans
from trilens.diagnose.answer import FUNCTIONS
from trilens.model.errors import IntakeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.diagnose.answer import Answer

pytestmark = pytest.mark.hunt

EVERY = pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
MUTATED = rounds(short=150, long=5_000)
DRAWN = rounds(short=25, long=1_000)
LARGE_S = 10.0  # on an idle machine the slowest takes a second
SHORT_SEEDS = 5_000  # bytes; large ones are for longer runs


@EVERY
def test_changed_inputs_are_taken_or_refused_and_nothing_else(target: Target) -> None:
    every = [one for one in target.seeds() if len(one) <= SHORT_SEEDS]
    some = every[:: max(1, len(every) // 40)]
    taken = sum(survives(target, data) for data in islice(mutations(some, seed=8), MUTATED))
    assert taken > 0, "not one was taken: the seeds are no good"


@EVERY
def test_inputs_of_the_right_shape_are_taken_or_refused_and_nothing_else(target: Target) -> None:
    @settings(
        max_examples=DRAWN,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(target.shaped())
    def drawn(data: bytes) -> None:
        survives(target, data)

    drawn()


@EVERY
def test_large_inputs_take_no_longer_than_any_other_may(target: Target) -> None:
    assert [survives(target, data, slowest_s=LARGE_S) for data in target.large()]


def of(take: object) -> Target:
    return Target("x", "x", take, lambda: [b""], st.binary)  # type: ignore[arg-type]


def test_an_error_of_our_own_is_a_refusal_and_any_other_is_not() -> None:
    def refuse(_: bytes) -> None:
        raise IntakeError("no")

    assert not survives(of(refuse), b"")
    assert survives(of(len), b"")
    with pytest.raises(ValueError, match="invalid literal"):
        survives(of(int), b"x")


def test_an_input_that_takes_for_ever_is_found() -> None:
    def hang(_: bytes) -> None:
        while True:
            pass

    with pytest.raises(TooSlow):
        survives(of(hang), b"", slowest_s=0.05)


def test_who_catches_every_error_does_not_catch_that() -> None:
    def hang(_: bytes) -> None:
        with suppress(Exception):
            while True:
                pass

    with pytest.raises(TooSlow):
        survives(of(hang), b"", slowest_s=0.05)


def test_evidence_that_could_not_be_looked_at_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Answer:
        raise KeyError("a shape that nobody thought of")

    seed = next(iter(BUNDLE.seeds()))
    assert survives(BUNDLE, seed)
    for name, function in FUNCTIONS.items():
        monkeypatch.setitem(FUNCTIONS, name, function._replace(look=fail))
    with pytest.raises(KeyError, match="nobody thought of"):
        survives(BUNDLE, seed)


def test_what_a_member_of_a_bundle_holds_is_read_past_its_checksum() -> None:
    assert not survives(BUNDLE, b"\1[]"), "the manifest"
    assert survives(BUNDLE, b"\2[]")
    assert survives(BUNDLE, b"\2[")


def test_spans_are_tried_with_every_attribute_that_is_read_of_them() -> None:
    read = set(re.findall(r'"((?:training|process|telemetry|service|host|k8s)\.[a-z._]+)"', getsource(spans)))
    assert read - {"training."} == set(TRAINING) - {"training.loss"}


@EVERY
def test_there_are_seeds_where_the_shared_corpora_are_not(
    target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRILENS_CORPORA", str(tmp_path))
    seeds = [one for one in target.seeds() if len(one) <= SHORT_SEEDS]
    assert any(survives(target, data) for data in seeds), "not one is taken"


def test_an_input_that_has_something_run_or_written_is_found(tmp_path: Path) -> None:
    import pickle

    with pytest.raises(Forbidden, match="find_class"):
        survives(of(pickle.loads), pickle.dumps(Target))
    with pytest.raises(Forbidden, match="open"):
        survives(of(lambda data: (tmp_path / "x").write_bytes(data)), b"")
    there = tmp_path / "there"
    there.touch()
    reading: tuple[Callable[[bytes], object], ...] = (
        lambda _: os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT),
        lambda _: (tmp_path / "y").mkdir(),
        lambda _: there.rename(tmp_path / "z"),
        lambda _: there.unlink(),
    )
    for read in reading:
        with pytest.raises(Forbidden):
            survives(of(read), b"")
    assert survives(of(lambda _: os.close(os.open(there, os.O_RDONLY))), b"")
    (tmp_path / "x").write_bytes(b"outside of a reading everything is allowed")
