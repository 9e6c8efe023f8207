"""Whatever people and programs write comes back from a real store as it was: quotes, backslashes, NULs and
emoji are data, and never a part of a statement."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from long_form import rounds
from receivers_at_work import incident
from run_records import facts, process
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.run import CheckpointRecord, NoteRecord, RunId
from trilens.model.run_commit import RunCommit
from trilens.model.series import SelectRequest
from trilens.model.workload import Workload, WorkloadKey
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.labels import Labels

pytestmark = pytest.mark.hunt

ODD = (
    "'",
    '"',
    "\\",
    "\\'",
    "'; DROP TABLE samples; --",
    "') OR 1=1 --",
    "`samples`",
    "{x:String}",
    "%s {} $1 \\x00",
    "\x00",
    "a\x00b",
    "\n\r\t",
    "\x1b[2J",
    "<script>alert(1)</script>",
    "🙂👩‍🚀",
    "é\u0301",
    "\u202e",
    " ",
    "\ufeff",
    "x" * 2_000,
)
TEXT = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
TEXTS = st.lists(TEXT, min_size=5, max_size=25, unique=True)
A_FEW = settings(
    max_examples=rounds(short=4, long=100),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[*HealthCheck],
)


class Kept:
    """A store that may be started again: a process has one engine at a time."""

    def __init__(self, folder: Path) -> None:
        self._options = StoreOptions(data_dir=folder)
        self.store = Store.open(self._options, upkeep=False)

    def restart(self) -> None:
        self.store.close()
        self.store = Store.open(self._options, upkeep=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    opened = Kept(tmp_path_factory.mktemp("texts"))
    yield opened
    opened.store.close()


@pytest.fixture
def store(kept: Kept) -> Store:
    return kept.store


def labelled(text: str) -> Labels:
    return make_labels({METRIC_NAME: "odd", "text": text, "other": "x"})


def written(store: Store, texts: list[str]) -> int:
    """Each as a label's value; returns when."""
    now_ms = time.time_ns() // 1_000_000
    handles = np.array([store.series(labelled(text)) for text in texts], np.int64)
    times = np.full(len(texts), now_ms, np.int64)
    assert store.append(handles, times, np.arange(len(texts), dtype=np.float64)).accepted == len(texts)
    store.durable().result()
    return now_ms


def found(store: Store, now_ms: int, *matchers: Matcher) -> list[dict[str, str]]:
    request = SelectRequest((Matcher(METRIC_NAME, "=", "odd"), *matchers), now_ms - 1, now_ms)
    answer = store.select(request, QueryGuard())
    return [dict(answer.labels.labels(row)) for row in range(len(answer.labels))]


def test_values_of_labels_are_found_by_what_they_are(store: Store) -> None:
    @A_FEW
    @given(TEXTS)
    def check(texts: list[str]) -> None:
        now_ms = written(store, texts)
        for text in texts:
            assert found(store, now_ms, Matcher("text", "=", text)) == [dict(labelled(text))]
        assert len(found(store, now_ms, Matcher("text", "!=", texts[0]))) == len(texts) - 1

    check()


def test_values_of_labels_are_the_same_after_a_start(kept: Kept) -> None:
    now_ms = written(kept.store, [*ODD])
    kept.restart()
    assert {one["text"] for one in found(kept.store, now_ms)} == set(ODD)
    for text in ODD:
        assert found(kept.store, now_ms, Matcher("text", "=", text)) == [dict(labelled(text))]


def test_what_programs_tell_of_runs(store: Store) -> None:
    numbers = itertools.count()

    @A_FEW
    @given(TEXTS)
    def check(texts: list[str]) -> None:
        run = RunId(f"texts-{next(numbers)}")  # nobody tells of one run in two ways
        told = facts(
            run, experiment=texts[0], name=texts[1], config={texts[2]: texts[3]}, tags={texts[3]: texts[4]}
        )
        commit = RunCommit(facts=[told], processes=[process(run=run, node=texts[0])])
        commit.notes = [
            NoteRecord(run, 0, 0, n, 1_000, text, text, data={text: text}) for n, text in enumerate(texts)
        ]
        commit.checkpoints = [CheckpointRecord(run, n, 0, 0, n, text, 1_000) for n, text in enumerate(texts)]
        store.runs.commit(commit)
        assert store.runs.runs(run=run) == [told]
        assert run in {one.run for one in store.runs.runs(experiment=texts[0])}
        assert store.runs.processes([run])[0].node == texts[0]
        notes = {one.n: one for one in store.runs.notes(run)}
        checkpoints = {one.n: one.path for one in store.runs.checkpoints(run)}
        for n, text in enumerate(texts):
            assert (notes[n].kind, notes[n].text, notes[n].data) == (text, text, {text: text})
            assert checkpoints[n] == text
            assert text in {one.path for one in store.runs.written_at(text)}

    check()


def test_names_of_workloads_and_what_is_said_of_incidents(store: Store) -> None:
    @A_FEW
    @given(TEXTS)
    def check(texts: list[str]) -> None:
        keys = [WorkloadKey("c", text, "batch", "Job", text, f"u-{text}") for text in texts]
        for key in keys:
            store.workloads.workload(Workload(key, 1_000, team=key.name, queue=key.name), at_ms=1_000)
        told = [incident(f"i-{text}", title=text) for text in texts]
        store.incidents.put(told)
        assert store.records_settled(60)
        for key, one in zip(keys, told, strict=True):
            (found_one,) = store.workloads.called([(key.namespace, key.kind, key.name)])
            assert (found_one.key, found_one.team, found_one.queue) == (key, key.name, key.name)
            kept = store.incidents.get(one.id)
            assert kept is not None
            assert replace(kept, timeline=()) == replace(one, timeline=())

    check()
