"""Whatever clocks say, the nodes' and our own: no interval is negative, and none begins after now."""

from __future__ import annotations

import copy
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_story import pod_key
from hypothesis import given, settings
from hypothesis import strategies as st
from story import Story, condition, ended, job, pod, running

from kube_objects import KeptIntervals, at_ms
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.life import Phase
from trilens.model.node import LocalJob, LocalProcess, NodeJobs, Restarts
from trilens.model.workload import GpuUuid, WorkloadKey
from trilens.resolve.gpus.books import BindingBook, GpuBook
from trilens.resolve.intervals import PhaseBook
from trilens.resolve.life import Moment
from trilens.resolve.local import LocalResolver
from trilens.settings.ownership import OwnershipSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY_S = 86_400
SKEWS = st.integers(-2 * DAY_S, 2 * DAY_S)
OUR_CLOCK = st.integers(1, 10**6)  # in no order: it may be set back
ANY_MS = st.integers(-(10**6), 2 * 10**6)
RUN = WorkloadKey("", "ada", "torchrun", "Run", "sweep", "torchrun-sweep")
GPU = Gpu(GpuKey(GpuUuid("GPU-1")), "lab", "node-a", "0", "H100")


class Span(NamedTuple):
    from_ms: int
    to_ms: int | None


def impossible(spans: Iterable[Any], latest_ms: int) -> list[Any]:
    """Those that begin after now, or end before they begin."""
    ends = ((one, latest_ms if one.to_ms is None else one.to_ms) for one in spans)
    return [one for one, end_ms in ends if not one.from_ms <= end_ms <= latest_ms]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SKEWS, SKEWS), min_size=2, max_size=2), SKEWS)
def test_pods_on_nodes_whose_clocks_are_wrong(skews: list[tuple[int, int]], said: int) -> None:
    """Each node's clock, which may be set between start and end, and that of who writes the conditions."""
    story = Story()
    own = job(story)
    pods = [pod(story, own, index, 5) for index in (0, 1)]
    story.at(6, own, *copy.deepcopy(pods))
    for one, (start, _) in zip(pods, skews, strict=True):
        running(one, 20 + start, scheduled_at=10)
    story.at(21, *copy.deepcopy(pods))
    for one, (start, end) in zip(pods, skews, strict=True):
        ended(one, 20 + start, 90 + end)
    own["status"] = {"conditions": [condition("Complete", 92 + said)]}
    story.at(93, own, *pods)
    phases = sorted(story.sink.phases.values(), key=lambda one: (one.from_ms, one.to_ms or 1 << 60))
    assert impossible(phases, at_ms(93)) == []
    for before, after in pairwise(phases):
        assert before.to_ms == after.from_ms, "no gap, no overlap"
    assert impossible(story.sink.memberships.values(), at_ms(93)) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(OUR_CLOCK, st.none() | ANY_MS, st.sampled_from(Phase), st.booleans()), max_size=12))
def test_phases_by_a_clock_that_is_set(told: list[tuple[int, int | None, Phase, bool]]) -> None:
    kept = KeptIntervals()
    book = PhaseBook(kept)
    latest_ms = 0
    for now_ms, since_ms, phase, is_over in told:
        latest_ms = max(latest_ms, now_ms)
        if is_over:
            book.end(RUN, now_ms)
        else:
            book.enter(RUN, 0, Moment(phase, "", since_ms), now_ms)
        assert all(spent >= 0 for spent in book.time_in_each(RUN, now_ms).values())
    assert impossible(kept.phases.values(), latest_ms) == []


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(OUR_CLOCK, st.lists(st.tuples(st.integers(1, 3), SKEWS, st.integers(0, 2)), max_size=3)),
        max_size=8,
    )
)
def test_processes_that_began_in_the_future_or_before_the_world(
    looks: list[tuple[int, list[tuple[int, int, int]]]],
) -> None:
    kept = KeptIntervals()
    local = LocalResolver("machines", OwnershipSettings(), kept)
    latest_ms = 0
    for now_ms, processes in looks:
        latest_ms = max(latest_ms, now_ms)
        found = {
            pid: LocalProcess(pid, "python", started_s * 1000, pid, pid, Restarts(0, restarts), ())
            for pid, started_s, restarts in processes
        }
        jobs = (LocalJob(RUN, tuple(found.values())),) if found else ()
        local.take(NodeJobs("gpu-1", jobs), now_ms)
        for process in found.values():
            local.glimpse("gpu-1", LocalJob(RUN, (process._replace(pid=process.pid + 10),)), now_ms)
    assert impossible(kept.memberships.values(), latest_ms) == []
    assert impossible(kept.phases.values(), latest_ms) == []


class KeptGpus:
    def __init__(self) -> None:
        self.told: dict[tuple[object, ...], Span] = {}

    def gpu(self, interval: GpuInterval) -> None:
        self.told["gpu", interval.gpu.node, interval.from_ms] = Span(interval.from_ms, interval.to_ms)

    def binding(self, interval: BindingInterval) -> None:
        binding = interval.binding
        self.told["held", binding.pod, interval.from_ms] = Span(interval.from_ms, interval.to_ms)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            OUR_CLOCK,
            st.none() | st.sampled_from(["node-a", "node-b"]),
            st.sets(st.integers(0, 2)),
            st.sampled_from([Fraction(1), Fraction(1, 2)]),
        ),
        max_size=10,
    )
)
def test_gpus_and_their_holders_by_a_clock_that_is_set(
    looks: list[tuple[int, str | None, set[int], Fraction]],
) -> None:
    kept = KeptGpus()
    gpus, bindings = GpuBook(kept), BindingBook(kept)
    pods = [pod_key(f"train-{number}") for number in range(3)]
    latest_ms = 0
    for now_ms, node, holders, share in looks:
        latest_ms = max(latest_ms, now_ms)
        reporting = {} if node is None else {GPU.key: Gpu(GPU.key, "lab", node, "0", "H100")}
        gpus.update(reporting, now_ms)
        held = [GpuBinding(GPU.key, pods[one], "main", share, (ClaimSource.DCGM,)) for one in holders]
        bindings.update(held, reporting, pods[:2], {"lab"}, now_ms)
    assert impossible(kept.told.values(), latest_ms) == []
