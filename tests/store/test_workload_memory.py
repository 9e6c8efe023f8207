"""A workload is read once, and again when something of it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.store.record_writer import RecordWriter
from trilens.store.workload_memory import WorkloadMemory
from trilens.store.workloads import WorkloadHistory, WorkloadRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.store.engine import Engine

TRAIN = WorkloadKey("prod", "ml", "kubeflow.org", "PyTorchJob", "train", "uid-train")
NAME = ("prod", "ml", "train")
PATIENCE_S = 60.0


class Writing:
    def __init__(self, engine: Engine) -> None:
        self.writer = RecordWriter(engine)
        self.records = WorkloadRecords(engine, self.writer)

    def named(self, until_ms: int = 1_000) -> WorkloadHistory:
        place = {"cluster": "prod", "namespace": "ml", "kind": "PyTorchJob"}
        (found,) = self.records.named("train", **place, until_ms=until_ms)
        return found


@pytest.fixture
def writing(engine: Engine) -> Iterator[Writing]:
    found = Writing(engine)
    yield found
    found.writer.close()


def pod(name: str, from_ms: int, to_ms: int | None = None) -> MembershipInterval:
    key = PodKey(TRAIN.cluster, TRAIN.namespace, name, f"uid-{name}")
    return MembershipInterval(Membership(key, TRAIN), "node", from_ms, to_ms)


def test_it_is_read_again_when_something_is_told(writing: Writing, engine: Engine) -> None:
    records = writing.records
    records.workload(Workload(TRAIN, team="vision"))
    records.membership(pod("a", 10))
    assert writing.writer.settled(PATIENCE_S)
    first = writing.named()
    assert writing.named() is first
    for told in (
        lambda: records.membership(pod("a", 10, 20)),
        lambda: records.membership(pod("b", 15)),
        lambda: records.phase(PhaseInterval(TRAIN, 0, Phase.RUNNING, "", 12)),
        lambda: records.workload(Workload(TRAIN, team="speech")),
    ):
        told()
        assert writing.writer.settled(PATIENCE_S)
        (disk,) = WorkloadRecords(engine, writing.writer).named(
            "train", cluster="prod", namespace="ml", kind="PyTorchJob", until_ms=1_000
        )
        assert writing.named() == disk != first
    last = writing.named()
    assert (last.record.team, len(last.members), len(last.phases)) == ("speech", 2, 1)


def test_of_an_earlier_moment_less_is_told(writing: Writing) -> None:
    writing.records.workload(Workload(TRAIN))
    for one in (pod("a", 10, 20), pod("b", 30)):
        writing.records.membership(one)
    assert writing.writer.settled(PATIENCE_S)
    assert writing.named().members == [pod("a", 10, 20), pod("b", 30)]
    assert writing.named(until_ms=15).members == [pod("a", 10)]
    assert writing.named().members == [pod("a", 10, 20), pod("b", 30)]


class Counted:
    """How often it was read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self) -> list[WorkloadHistory]:
        self.read += 1
        return [WorkloadHistory(Workload(TRAIN))]


def test_what_is_not_on_disk_yet_is_waited_for() -> None:
    written, reads = [7], Counted()
    memory = WorkloadMemory(lambda: written[0])
    memory.told(TRAIN, 8)
    memory.named(NAME, "PyTorchJob", reads)
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 2, "what was told may have been on its way"
    written[0] = 8
    memory.named(NAME, "PyTorchJob", reads)
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 3
    memory.told(TRAIN._replace(name="another"), 9)
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 3
    memory.told(TRAIN, 10)
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 4


def test_of_two_who_tell_of_it_at_once_the_later_is_waited_for() -> None:
    written, reads = [7], Counted()
    memory = WorkloadMemory(lambda: written[0])
    for version in (8, 7):
        memory.told(TRAIN, version)
    memory.named(NAME, "PyTorchJob", reads)
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 2


def test_what_is_told_while_it_is_read_makes_it_old() -> None:
    written, read = [7], [0]
    memory = WorkloadMemory(lambda: written[0])

    def reading() -> list[WorkloadHistory]:
        read[0] += 1
        if read[0] == 1:
            memory.told(TRAIN, 8)
            written[0] = 8
            for number in range(2_000):  # so many that what is on disk is no longer remembered
                memory.told(TRAIN._replace(name=str(number)), 9)
        return [WorkloadHistory(Workload(TRAIN))]

    memory.named(NAME, "PyTorchJob", reading)
    memory.named(NAME, "PyTorchJob", reading)
    assert read[0] == 2


def test_after_a_while_it_is_read_again() -> None:
    now_s, reads = [0.0], Counted()
    memory = WorkloadMemory(lambda: 1, lambda: now_s[0])
    memory.named(NAME, "PyTorchJob", reads)
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 1
    now_s[0] = 301.0
    memory.named(NAME, "PyTorchJob", reads)
    assert reads.read == 2
