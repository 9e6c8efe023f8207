"""GPUs and holders as intervals: kept through silences, taken up after a restart, never two at once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from gpu_story import member, pod_key

from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.workload import Doubt, GpuUuid
from trilens.resolve.gpus.books import QUIET_MS, REMEMBERED_MS, BindingBook, GpuBook
from trilens.resolve.info import gpu_info

KEY = GpuKey(GpuUuid("GPU-1"))
GPU = Gpu(KEY, "lab", "node-a", "0", "H100")
POD = pod_key("train-0")
BINDING = GpuBinding(KEY, POD, "main", Fraction(1), (ClaimSource.DCGM,))


class Kept:
    """A sink in memory, with the rule that the same beginning replaces."""

    def __init__(self) -> None:
        self.gpus: dict[tuple[object, ...], GpuInterval] = {}
        self.bindings: dict[tuple[object, ...], BindingInterval] = {}

    def gpu(self, interval: GpuInterval) -> None:
        gpu = interval.gpu
        self.gpus[gpu.cluster, gpu.node, gpu.key, interval.from_ms] = interval

    def binding(self, interval: BindingInterval) -> None:
        binding = interval.binding
        self.bindings[binding.gpu, binding.pod, binding.container, interval.from_ms] = interval

    def times(self) -> list[tuple[int, int | None]]:
        return [(one.from_ms, one.to_ms) for one in self.gpus.values()]

    def holding(self) -> list[tuple[str, int, int | None]]:
        return [(one.binding.pod.uid, one.from_ms, one.to_ms) for one in self.bindings.values()]


def update(book: BindingBook, at_ms: int, *bindings: GpuBinding, **given: object) -> None:
    known = {"reporting": {KEY}, "there": {POD}, "settled": {"lab"}, "since": {}, **given}
    told = (known["reporting"], known["there"], known["settled"], at_ms, known["since"].get)  # type: ignore[attr-defined]
    book.update(bindings, *told)  # type: ignore[arg-type]


def test_a_gpu_that_misses_a_scrape_has_not_gone() -> None:
    kept = Kept()
    book = GpuBook(kept)
    book.update({KEY: GPU}, 1_000)
    book.update({}, 16_000)
    assert [gone.seen_ms for gone in book.silent()] == [1_000]
    book.update({KEY: GPU}, 31_000)
    assert list(book.silent()) == []
    assert kept.times() == [(1_000, None)]


def test_a_gpu_that_stays_silent_ended_when_it_last_reported() -> None:
    kept = Kept()
    book = GpuBook(kept)
    book.update({KEY: GPU}, 1_000)
    book.update({}, 1_001 + QUIET_MS)
    assert kept.times() == [(1_000, 1_000)]
    assert [gone.gpu for gone in book.silent()] == [GPU]
    book.update({}, 1_001 + REMEMBERED_MS)
    assert list(book.silent()) == []
    book.update({KEY: GPU}, REMEMBERED_MS + 9_000)
    assert kept.times()[1:] == [(REMEMBERED_MS + 9_000, None)]


def test_a_gpu_whose_energy_counter_begins_again_was_reset() -> None:
    kept = Kept()
    book = GpuBook(kept)
    other = replace(GPU, key=GpuKey(GpuUuid("GPU-2")))
    there = {KEY: GPU, other.key: other}
    book.update(there, 1_000, {KEY.uuid: 9e9, other.key.uuid: 9e9})
    book.update(there, 16_000, {KEY.uuid: 8.99e9, other.key.uuid: 9.1e9})  # another reporter, a little behind
    book.update(there, 31_000, {})
    assert kept.times() == [(1_000, None), (1_000, None)]
    book.update(there, 46_000, {KEY.uuid: 1e6, other.key.uuid: 9.2e9})
    book.update(there, 61_000, {KEY.uuid: 2e6, other.key.uuid: 9.3e9})
    assert sorted(kept.times(), key=str) == [(1_000, 46_000), (1_000, None), (46_000, None)]


def test_a_gpu_goes_on_after_a_restart() -> None:
    kept = Kept()
    book = GpuBook(kept)
    gone = replace(GPU, key=GpuKey(GpuUuid("GPU-2")))
    book.restore([GpuInterval(GPU, 1_000, None), GpuInterval(gone, 500, 900)], 100_000)
    book.update({}, 101_000)  # no scrape has come in yet
    assert [(one.gpu.key.uuid, one.seen_ms) for one in book.silent()] == [("GPU-1", 100_000), ("GPU-2", 900)]
    book.update({KEY: GPU}, 115_000)
    assert kept.times() == []


def test_a_gpu_that_moves_has_two_times_and_one_whose_cluster_is_learnt_has_one() -> None:
    kept = Kept()
    book = GpuBook(kept)
    book.update({KEY: replace(GPU, cluster="", node="host")}, 1_000)
    book.update({KEY: GPU}, 2_000)
    assert kept.times() == [(1_000, 1_000), (1_000, None)]
    book.update(
        {KEY: replace(GPU, cluster="", node="host")}, 3_000
    )  # Trilens restarted, the cluster is unread
    assert len(kept.gpus) == 2
    book.update({KEY: replace(GPU, node="node-b")}, 4_000)
    assert kept.times()[1:] == [(1_000, 3_000), (4_000, None)]


def test_what_a_reporter_leaves_out_stays_known() -> None:
    kept = Kept()
    book = GpuBook(kept)
    instance = replace(GPU, profile="1g.10gb")
    book.update({KEY: instance}, 1_000)
    book.update({KEY: replace(GPU, index="", model="")}, 2_000)  # only a process on it is told
    assert list(kept.gpus.values()) == [GpuInterval(instance, 1_000, None)]


def test_an_instance_that_is_cut_anew_under_its_number_was_another_before() -> None:
    kept = Kept()
    book = GpuBook(kept)
    small, large = replace(GPU, profile="1g.10gb"), replace(GPU, profile="3g.40gb")
    book.update({KEY: small}, 1_000)
    book.update({KEY: large}, 5_000)
    assert list(kept.gpus.values()) == [GpuInterval(small, 1_000, 1_000), GpuInterval(large, 5_000, None)]


def test_a_machine_in_no_cluster_that_gets_another_name_is_another_place() -> None:
    kept = Kept()
    book = GpuBook(kept)
    book.update({KEY: replace(GPU, cluster="", node="old")}, 1_000)
    book.update({KEY: replace(GPU, cluster="", node="new")}, 2_000)
    assert [(one.gpu.node, one.to_ms) for one in kept.gpus.values()] == [("old", 1_000), ("new", None)]


def test_a_binding_ends_when_nobody_claims_it_any_more() -> None:
    kept = Kept()
    book = BindingBook(kept)
    update(book, 1_000, BINDING)
    update(book, 16_000, BINDING)
    update(book, 31_000)
    assert kept.holding() == [(POD.uid, 1_000, 31_000)]


def test_the_holder_of_a_silent_gpu_stays_while_it_is_there() -> None:
    kept = Kept()
    book = BindingBook(kept)
    update(book, 1_000, BINDING)
    update(book, 16_000, reporting=set())
    (held,) = book.open
    assert (held.from_ms, [doubt.code for doubt in held.binding.doubts]) == (1_000, ["gpu-silent"])
    update(book, 31_000, reporting=set())
    assert [*book.open] == [held]
    update(book, 46_000, BINDING)  # it reports again
    assert [one.binding.doubts for one in book.open] == [()]
    update(book, 61_000, reporting=set(), there=set())  # its pod has ended
    assert kept.holding() == [(POD.uid, 1_000, 61_000)]


def test_another_holder_ends_the_one_before() -> None:
    kept = Kept()
    book = BindingBook(kept)
    other = replace(BINDING, pod=pod_key("next-0"))
    update(book, 1_000, BINDING)
    update(book, 16_000, other, reporting=set(), there={POD, other.pod})
    assert kept.holding() == [(POD.uid, 1_000, 16_000), (other.pod.uid, 16_000, None)]


def test_what_is_learnt_changes_a_binding_and_a_new_share_begins_another() -> None:
    kept = Kept()
    book = BindingBook(kept)
    update(book, 1_000, BINDING)
    update(book, 16_000, replace(BINDING, rank=3, doubts=(Doubt("x", "y"),)))
    assert kept.holding() == [(POD.uid, 1_000, None)]
    update(book, 31_000, replace(BINDING, rank=3, share=Fraction(1, 2)))
    update(book, 46_000, replace(BINDING, rank=4, share=Fraction(1, 2)))
    assert kept.holding() == [
        (POD.uid, 1_000, 31_000),
        (POD.uid, 31_000, 46_000),
        (POD.uid, 46_000, None),
    ]


def test_bindings_go_on_after_a_restart_until_their_cluster_was_read() -> None:
    kept = Kept()
    book = BindingBook(kept)
    book.restore([BindingInterval(BINDING, 1_000, None)], {})
    update(book, 16_000, settled=set())
    assert kept.holding() == []
    update(book, 31_000)
    assert kept.holding() == [(POD.uid, 1_000, 31_000)]


def test_a_gpu_whose_cluster_goes_by_another_name_now_is_not_held_twice() -> None:
    kept = Kept()
    book = BindingBook(kept)
    before = replace(BINDING, pod=pod_key("train-0", "old-name"))
    book.restore([BindingInterval(before, 1_000, None)], {})
    update(book, 5_000)
    assert [one.binding for one in book.open] == [before]
    update(book, 6_000, BINDING)
    assert [one.binding for one in book.open] == [BINDING]


def test_a_binding_that_is_new_counts_since_its_pod_runs() -> None:
    kept = Kept()
    book = BindingBook(kept)
    update(book, 16_000, BINDING, since={POD: 4_000})
    update(book, 31_000, BINDING, since={POD: 4_000})
    assert kept.holding() == [(POD.uid, 4_000, None)]
    assert [one.binding.doubts for one in book.open] == [()]


def test_it_does_not_count_over_the_one_before() -> None:
    """Which was seen with it at the last look, and must have gone when the other's containers began."""
    kept = Kept()
    book = BindingBook(kept)
    other = replace(BINDING, pod=pod_key("next-0"))
    update(book, 1_000, BINDING)
    book.unchanged(16_000)
    update(book, 31_000, other, there={other.pod}, since={other.pod: 22_000})
    assert kept.holding() == [(POD.uid, 1_000, 22_000), (other.pod.uid, 22_000, None)]
    third = replace(BINDING, pod=pod_key("third-0"))
    update(book, 46_000, third, there={third.pod}, since={third.pod: 5_000})
    assert kept.holding()[1:] == [(other.pod.uid, 22_000, 31_000), (third.pod.uid, 31_000, None)]


@pytest.mark.parametrize(("reporting", "from_ms"), [({KEY}, 9_000), (set(), 5_000)])
def test_a_gpu_that_is_gone_for_a_month_is_forgotten_and_one_that_is_there_is_not(
    reporting: set[GpuKey], from_ms: int
) -> None:
    kept = Kept()
    book = BindingBook(kept)
    book.restore([], {KEY: 9_000})
    month_later_ms = 10_000 + REMEMBERED_MS
    update(book, month_later_ms, reporting=reporting)
    update(book, month_later_ms + 15_000, BINDING, since={POD: 5_000})
    assert kept.holding() == [(POD.uid, from_ms, None)]


def test_it_does_not_count_over_one_that_ended_before_a_restart() -> None:
    kept = Kept()
    book = BindingBook(kept)
    book.restore([], {KEY: 9_000})
    update(book, 31_000, BINDING, since={POD: 5_000})
    assert kept.holding() == [(POD.uid, 9_000, None)]


def test_it_does_not_count_beside_one_that_holds_the_gpu_already() -> None:
    kept = Kept()
    book = BindingBook(kept)
    half, other = replace(BINDING, share=Fraction(1, 2)), pod_key("next-0")
    update(book, 1_000, BINDING)
    update(book, 16_000, half, replace(half, pod=other), there={POD, other}, since={other: 4_000})
    assert kept.holding() == [
        (POD.uid, 1_000, 16_000),
        (POD.uid, 16_000, None),
        (other.uid, 16_000, None),
    ]


def test_what_nobody_gave_out_for_life_is_a_guess_until_it_was_seen() -> None:
    for told in (replace(BINDING, sources=(ClaimSource.PROCESS,)), replace(BINDING, share=Fraction(1, 2))):
        kept = Kept()
        book = BindingBook(kept)
        update(book, 16_000, told, since={POD: 4_000})
        assert kept.holding() == [(POD.uid, 4_000, 16_000), (POD.uid, 16_000, None)]
        guessed, seen = kept.bindings.values()
        assert [one.code for one in guessed.binding.doubts] == ["held-before-seen"]
        assert seen.binding.doubts == ()
        update(book, 31_000)  # its process has ended
        update(book, 46_000, told, since={POD: 4_000})
        assert kept.holding()[2:] == [(POD.uid, 46_000, None)], "nobody knows who had it in between"


def test_a_clock_that_is_ahead_makes_no_binding_of_the_future() -> None:
    kept = Kept()
    book = BindingBook(kept)
    update(book, 16_000, BINDING, since={POD: 99_000})
    assert kept.holding() == [(POD.uid, 16_000, None)]


def test_the_info_metric_is_unique_through_a_change_of_attempt() -> None:
    """The same pod name with a new uid, with the old one gone, about to go, or holding a silent GPU."""
    again = pod_key("train-0", uid="uid-again")
    successor = replace(BINDING, pod=again, rank=1)
    members = {POD: member(POD, from_ms=1), again: member(again, from_ms=2, attempt=1)}
    for there in ({again}, {POD, again}):
        for reporting in ({KEY}, set[GpuKey]()):
            book = BindingBook(Kept())
            update(book, 1_000, BINDING)
            update(book, 16_000, successor, there=there, reporting=reporting)
            series = list(gpu_info(members, [one.binding for one in book.open]))
            assert [(one["attempt"], one["rank"]) for one in series] == [("1", "1")]
    both = list(gpu_info(members, [successor, BINDING]))
    assert [one["attempt"] for one in both] == ["1"]


def test_labels_of_a_gpu_of_a_pod() -> None:
    instance = replace(BINDING, gpu=GpuKey(GpuUuid("GPU-1"), "3"), rank=17, local_rank=1)
    stranger = replace(BINDING, pod=pod_key("stranger-0"))
    series = list(gpu_info({POD: member(POD)}, [instance, stranger]))
    assert series == [
        {
            "cluster": "lab",
            "namespace": "ml",
            "pod": "train-0",
            "container": "main",
            "UUID": "GPU-1",
            "GPU_I_ID": "3",
            "workload": "train",
            "attempt": "0",
            "rank": "17",
            "local_rank": "1",
        }
    ]
