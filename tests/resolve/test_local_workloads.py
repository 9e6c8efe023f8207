"""Processes on the GPUs of machines without Kubernetes become workloads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilens.model.gpu import BindingInterval, Claim, ClaimSource, GpuBinding, GpuKey
from trilens.model.life import Phase
from trilens.model.node import LocalJob, LocalProcess, NodeJobs, Restarts
from trilens.model.workload import GpuUuid, WorkloadKey
from trilens.resolve.info import pod_info
from trilens.resolve.local import LocalResolver
from trilens.settings.ownership import OwnershipSettings

if TYPE_CHECKING:
    from trilens.model.life import MembershipInterval, PhaseInterval
    from trilens.model.workload import Workload

RUN = WorkloadKey("", "ada", "torchrun", "Run", "sweep-7", "torchrun-sweep-7@gpu-1:29500")
SLURM = WorkloadKey("", "ada", "slurm", "Job", "llm", "slurm-42")
GROUP = WorkloadKey("", "ada", "", "ProcessGroup", "bash-700", "gpu-1-700-5000")
KEPT = RUN._replace(cluster="machines")


@dataclass
class Kept:
    """What the store would hold: the newest row of each interval."""

    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    memberships: dict[tuple[str, int], MembershipInterval] = field(default_factory=dict)
    phases: dict[tuple[WorkloadKey, int, int], PhaseInterval] = field(default_factory=dict)

    def workload(self, record: Workload) -> None:
        self.workloads[record.key] = record

    def membership(self, interval: MembershipInterval) -> None:
        self.memberships[interval.membership.pod.uid, interval.from_ms] = interval

    def phase(self, interval: PhaseInterval) -> None:
        self.phases[interval.workload, interval.attempt, interval.from_ms] = interval

    def members(self) -> list[tuple[str, int, int, int | None]]:
        return [
            (one.membership.pod.name, one.membership.attempt, one.from_ms, one.to_ms)
            for one in self.memberships.values()
        ]

    def life(self) -> list[tuple[Phase, int, int, int | None]]:
        return [(one.phase, one.attempt, one.from_ms, one.to_ms) for one in self.phases.values()]


def resolver(kept: Kept, *team: str) -> LocalResolver:
    return LocalResolver("machines", OwnershipSettings(team=team), kept)


def process(
    pid: int, rank: int | None = None, started_ms: int = 1000, slurm: int = 0, torchrun: int = 0
) -> LocalProcess:
    gpu = GpuKey(GpuUuid(f"GPU-{pid}"))
    return LocalProcess(pid, "python", started_ms, rank, rank, Restarts(slurm, torchrun), (gpu,))


def look(node: str, *jobs: tuple[WorkloadKey, list[LocalProcess]]) -> NodeJobs:
    return NodeJobs(node, tuple(LocalJob(key, tuple(processes)) for key, processes in jobs))


def test_a_run_is_there_from_the_start_of_its_processes_until_they_are_gone() -> None:
    kept = Kept()
    local = resolver(kept, "value:vision")
    local.take(look("gpu-1", (RUN, [process(11, 0), process(12, 1, 1200)])), 9000)
    assert kept.members() == [("python-11@gpu-1", 0, 1000, None), ("python-12@gpu-1", 0, 1200, None)]
    assert kept.life() == [(Phase.RUNNING, 0, 1000, None)]
    record = kept.workloads[KEPT]
    assert (record.created_ms, record.team) == (1000, "vision")
    assert [one.membership.node_rank for one in kept.memberships.values()] == [0, 1]

    local.take(look("gpu-1"), 24_000)
    assert [end for *_, end in kept.members()] == [24_000, 24_000]
    # Nobody knows how it ended: neither succeeded nor failed is told.
    assert kept.life() == [(Phase.RUNNING, 0, 1000, 24_000)]
    assert not local.workloads()


def test_a_job_on_two_machines_is_one_and_lasts_until_its_last_process() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (SLURM, [process(11, 0)])), 5000)
    local.take(look("gpu-2", (SLURM, [process(11, 1, 1100)])), 5001)
    assert len(kept.workloads) == 1
    members = pod_info(local.open_memberships, local.workloads())
    # The same process number on both: the names differ, for each is one series.
    assert [(one["pod"], one["node"], one["node_rank"]) for one in members] == [
        ("python-11@gpu-1", "gpu-1", "0"),
        ("python-11@gpu-2", "gpu-2", "1"),
    ]
    local.take(look("gpu-1"), 6000)
    assert kept.life() == [(Phase.RUNNING, 0, 1000, None)]
    local.forget({"gpu-2"}, 7000)  # gpu-2 is not among the agents any more
    assert kept.life() == [(Phase.RUNNING, 0, 1000, 7000)]


def test_a_restart_of_the_launcher_is_an_attempt() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (RUN, [process(11, 0)])), 5000)
    local.take(look("gpu-1", (RUN, [process(21, 0, 6000, torchrun=1)])), 8000)
    assert kept.members() == [("python-11@gpu-1", 0, 1000, 8000), ("python-21@gpu-1", 1, 6000, None)]
    assert kept.life() == [(Phase.RUNNING, 0, 1000, 6000), (Phase.RUNNING, 1, 6000, None)]
    assert kept.workloads[KEPT].attempt == 1
    assert kept.workloads[KEPT].created_ms == 1000


def test_torchrun_counts_anew_when_slurm_starts_it_again() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (SLURM, [process(11, 0, 1000, slurm=0, torchrun=2)])), 5000)
    local.take(look("gpu-1", (SLURM, [process(12, 0, 6000, slurm=1, torchrun=0)])), 7000)
    assert [attempt for _, attempt, _, _ in kept.members()] == [2, 3]


def test_an_agent_that_does_not_answer_ends_nothing() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (RUN, [process(11, 0)])), 5000)
    local.take(look("gpu-2"), 60_000)
    assert [end for *_, end in kept.members()] == [None]


def test_what_was_known_before_a_restart_goes_on() -> None:
    kept = Kept()
    before = resolver(kept)
    before.take(look("gpu-1", (RUN, [process(11, 0), process(12, 1, torchrun=0)])), 5000)
    after = resolver(kept)
    after.restore(kept.workloads.values(), kept.memberships.values(), kept.phases.values())
    after.take(look("gpu-1", (RUN, [process(11, 0)])), 9000)
    assert kept.members() == [("python-11@gpu-1", 0, 1000, None), ("python-12@gpu-1", 0, 1000, 9000)]
    assert kept.life() == [(Phase.RUNNING, 0, 1000, None)]


def test_a_clock_that_is_set_makes_no_new_process() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (GROUP, [process(11)])), 5000)
    moved = GROUP._replace(uid="gpu-1-700-6000")  # the start of the group's leader, told a second later
    local.take(look("gpu-1", (moved, [process(11, started_ms=2000), process(12, started_ms=4000)])), 9000)
    assert kept.members() == [("python-11@gpu-1", 0, 1000, None), ("python-12@gpu-1", 0, 4000, None)]
    assert {one.membership.workload.uid for one in kept.memberships.values()} == {"gpu-1-700-5000"}


def test_a_process_number_that_is_used_again_is_another_process() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (RUN, [process(11, 0)])), 5000)
    local.take(look("gpu-1", (GROUP, [process(11, started_ms=7000)])), 9000)
    assert kept.members() == [("python-11@gpu-1", 0, 1000, 9000), ("python-11@gpu-1", 0, 7000, None)]
    assert [one.membership.workload.kind for one in kept.memberships.values()] == ["Run", "ProcessGroup"]


def test_a_process_that_lived_too_short_for_a_look_was_there_all_the_same() -> None:
    kept = Kept()
    local = resolver(kept)
    local.glimpse("gpu-1", LocalJob(RUN, (process(11, 0, 4000),)), 4500)
    assert kept.members() == [("python-11@gpu-1", 0, 4000, 4500)]
    assert kept.life() == [(Phase.RUNNING, 0, 4000, 4500)]
    assert list(kept.workloads) == [KEPT]
    assert not local.workloads()
    # It lives, as a look shows: its interval and its phase go on.
    local.take(look("gpu-1", (RUN, [process(11, 0, 4000)])), 5000)
    assert kept.members() == [("python-11@gpu-1", 0, 4000, None)]
    assert kept.life() == [(Phase.RUNNING, 0, 4000, None)]


def test_a_word_about_a_process_that_was_seen_changes_nothing() -> None:
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (RUN, [process(11, 0)])), 5000)
    before = (kept.members(), kept.life())
    local.glimpse("gpu-1", LocalJob(RUN, (process(11, 0),)), 4500)
    assert (kept.members(), kept.life()) == before
    # Another rank of the same run, which nobody saw, is a member that has left.
    local.glimpse("gpu-1", LocalJob(RUN, (process(12, 1, 2000),)), 4600)
    assert kept.members()[1:] == [("python-12@gpu-1", 0, 2000, 4600)]
    assert kept.life() == before[1]


def test_processes_claim_the_gpus_they_are_on() -> None:
    local = resolver(Kept())
    local.take(look("gpu-1", (RUN, [process(11, 3)])), 5000)
    assert list(local.claims()) == [
        Claim(GpuKey(GpuUuid("GPU-11")), ClaimSource.PROCESS, "machines", "ada", "python-11@gpu-1", "", 3, 3)
    ]
    assert [key.name for key in local.members()] == ["python-11@gpu-1"]
    local.take(look("gpu-1"), 6000)
    assert list(local.claims()) == []


def test_machines_that_were_not_asked_since_a_restart_hold_what_they_held() -> None:
    kept = Kept()
    before = resolver(kept)
    before.take(look("gpu-1", (SLURM, [process(11, 0)])), 5000)
    before.take(look("gpu-2", (SLURM, [process(21, 1)])), 5000)
    pods = {pod.name: pod for pod in before.members()}
    bindings = [
        BindingInterval(
            GpuBinding(claim.gpu, pods[claim.pod], "", None, (claim.source,), claim.rank, claim.local_rank),
            5000,
            None,
        )
        for claim in before.claims()
    ]
    after = resolver(kept)
    after.restore(kept.workloads.values(), kept.memberships.values(), kept.phases.values(), bindings)
    assert list(after.claims()) == list(before.claims())
    after.take(look("gpu-1"), 9000)
    assert [claim.pod for claim in after.claims()] == ["python-21@gpu-2"]


def test_a_look_that_shows_nothing_new_says_so() -> None:
    local = resolver(Kept())
    assert local.take(look("gpu-1", (RUN, [process(11, 0)])), 5000)
    assert not local.take(look("gpu-1", (RUN, [process(11, 0)])), 6000)
    assert local.take(look("gpu-1", (RUN, [process(11, 1)])), 7000)  # of another rank
    assert local.take(look("gpu-1"), 8000)
    assert not local.take(look("gpu-1"), 9000)


def test_what_comes_back_goes_on_where_it_was() -> None:
    """The launcher needs longer to start it again than an agent to look, and the end is seen late."""
    kept = Kept()
    local = resolver(kept)
    local.take(look("gpu-1", (SLURM, [process(11, 0, 1000)])), 2000)
    local.take(look("gpu-1", (SLURM, [process(12, 0, 3000, torchrun=1)])), 4000)
    local.take(look("gpu-1"), 9000)
    local.take(look("gpu-1", (SLURM, [process(13, 0, 7000, slurm=1)])), 10_000)
    assert [attempt for _, attempt, _, _ in kept.members()] == [0, 1, 2]
    assert kept.life() == [
        (Phase.RUNNING, 0, 1000, 3000),
        (Phase.RUNNING, 1, 3000, 9000),
        (Phase.RUNNING, 2, 9000, None),
    ]
    assert kept.workloads[SLURM._replace(cluster="machines")].created_ms == 1000
