"""Which data a case blames for jumps of the loss: from the store, through lineage, to the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from run_records import RUN, facts, position, process, step
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.walk import why
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.run import BatchRecord
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import AttemptSpan
from trilens.serve.cases.suspect_batches import suspect_batches
from trilens.serve.storage import open_store
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.store.store import Store

STEPS = 60
JUMPS = (30, 50)
BAD = 777


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("store")
    settings = load_settings(overrides={"storage.data_dir": str(folder)}, environ={})
    store = open_store(settings.storage, upkeep=False)
    told = [step(at, values={"loss": 9.0 if at in JUMPS else 2.0 + at % 3 / 100}) for at in range(STEPS)]
    batches = [
        BatchRecord(RUN, at, 0, 0, at, dataset="web", ids=(at, BAD if at in JUMPS else 1_000 + at))
        for at in range(STEPS)
    ]
    lives = [process(0, heard_ms=10_000, step=STEPS - 1)]
    span = AttemptSpan(0, 0, 0, STEPS - 1, STEPS, None, None, 0, STEPS * 500_000, 0, STEPS - 1)
    stands = [position(0, span)]
    store.runs.commit(
        RunCommit(facts=[facts()], processes=lives, steps=told, batches=batches, positions=stands)
    )
    assert store.records_settled(30)
    yield store
    store.close()


def test_what_came_before_every_jump_is_named_first(store: Store) -> None:
    again, *single = suspect_batches(store.runs, RUN, STEPS - 1, ("train_loss", "loss"), None)
    assert (again.batch, again.jumps, again.value) == (f"dataset web, sample {BAD}", 2, "loss")
    assert [(one.step, one.batch) for one in single] == [
        (at, f"dataset web, samples {at}, {BAD}") for at in JUMPS
    ]


def test_it_is_the_cause_of_a_loss_that_rises(store: Store) -> None:
    rises = Finding(
        "D007",
        FindingKind.DIVERGENCE,
        Subject(run=RUN, rank=0),
        Severity.WARNING,
        "loss-rising",
        9_000,
        "up",
        "",
    )
    file = CaseFile(
        CaseSubject(SubjectKind.WORKLOAD, "lab", "ml", "train"),
        0,
        10_000,
        ranks=tuple(store.runs.processes([RUN])),
        findings=(FindingInterval(rises, 9_500, 10_000),),
        suspects=tuple(suspect_batches(store.runs, RUN, STEPS - 1, ("loss",), None)),
    )
    assert why(Case(file))[0].cause == "bad-batch"


def test_without_a_jump_nobody_is_suspected(store: Store) -> None:
    assert [*suspect_batches(store.runs, RUN, JUMPS[0] - 1, ("loss",), None)] == []
    assert [*suspect_batches(store.runs, RUN, STEPS, ("accuracy",), None)] == []
