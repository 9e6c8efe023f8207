"""The largest causes of money spent on nothing, and that they and the rest are all of it."""

from __future__ import annotations

import pytest

from ledger_nights import NIGHT_MS, a_night, first_hour, holder, hour, row
from memory_book import MemoryBook
from trilens.ledger import causes
from trilens.ledger.answers.cause_texts import explained
from trilens.ledger.answers.why import FOR_NOTHING, why
from trilens.ledger.lives.lost_work import LostSteps
from trilens.model.ledger import HOUR_MS, Basis, Bucket, Holder, LedgerRow
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.run import RunId
from trilens.serve.money.cost_sentence import cause_sentence

NIGHT = Window(NIGHT_MS, NIGHT_MS + 6 * HOUR_MS)


def said(book: MemoryBook, window: Window = NIGHT, lost: tuple[LostSteps, ...] = ()) -> list[str]:
    found = why(book, window, limit=20)
    told = {one.run: [other for other in lost if other.run == one.run] for one in lost}
    return [
        cause_sentence(explained(one.episode, one.times, one.nodes, told), window) for one in found.largest
    ]


def test_each_cause_is_a_sentence() -> None:
    lost = LostSteps(RunId("run-a"), 0, None, 4_001, 4_410, NIGHT_MS + 3 * HOUR_MS, "crashed", None)
    assert said(MemoryBook(*a_night()), lost=(lost,)) == [
        "vision-finetune-1 (team vision): stalled at step 8,320 since 01:12, 64 GPUs, 4.8 h, $1,229",
        "fleet (east): node gpu-07 not ready since 03:00, 8 GPUs, 3.0 h, $96.00",
        "fleet (east): free on gpu-02, 4 GPUs on average, 24.0 GPU-hours, $96.00",
        "llm-pretrain (team research): waited for data, 8 GPUs, 1.5 h, $48.00",
        "ablation (team research): crash at step 4,410, 410 steps after the last checkpoint were lost, "
        "8 GPUs, 1.0 h, $32.00",
    ]


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_the_rest_is_all_that_is_not_said(limit: int) -> None:
    found = why(MemoryBook(*a_night()), NIGHT, limit=limit)
    (whole,) = found.for_nothing
    shown = [one.episode for one in found.largest]
    assert sum(one.quanta for one in (*shown, *found.rest)) == whole.quanta
    assert sum(one.gpu_ms for one in (*shown, *found.rest)) == whole.gpu_ms
    assert sum(one.causes or 0 for one in found.rest) == max(0, 5 - limit)


def test_what_was_of_use_is_not_for_nothing() -> None:
    assert {Bucket.PRODUCTIVE, Bucket.SERVING_BUSY, Bucket.CHECKPOINT}.isdisjoint(FOR_NOTHING)
    found = why(MemoryBook(*a_night()), NIGHT, limit=20)
    (spent,), (nothing,) = found.spent, found.for_nothing
    assert (nothing.quanta, spent.quanta) == (1_500_800_000_000, 1_952_000_000_000)


def test_free_gpus_are_counted_over_the_time_in_which_any_were_known() -> None:
    def free(hour_ms: int, ms: int) -> list[LedgerRow]:
        return row(hour_ms, Holder(), Bucket.UNALLOCATED, gpus=6, ms=ms, cause=causes.FREE)

    begun = first_hour(NIGHT_MS + 4 * HOUR_MS, 600_000, free(NIGHT_MS + 4 * HOUR_MS, 600_000))
    then = hour(NIGHT_MS + 5 * HOUR_MS, free(NIGHT_MS + 5 * HOUR_MS, HOUR_MS))
    assert said(MemoryBook(begun)) == [
        "fleet (east): free on gpu-01, 6 GPUs on average, 1.0 GPU-hours, $4.00"
    ]
    assert said(MemoryBook(begun, then)) == [
        "fleet (east): free on gpu-01, 6 GPUs on average, 7.0 GPU-hours, $28.00"
    ]


def test_what_comes_and_goes_is_one_cause() -> None:
    whose = holder("notebook", "vision")
    rows = [
        row(
            NIGHT_MS,
            whose,
            Bucket.ALLOCATED_IDLE,
            ms=600_000,
            cause=causes.IDLE,
            since_ms=NIGHT_MS + n,
            basis=Basis.GPU,
        )
        for n in range(5)
    ]
    assert said(MemoryBook(hour(NIGHT_MS, *rows))) == [
        "notebook (team vision): held GPUs and did nothing on them, 5 times, 1 GPU, 50 min, $3.33"
    ]


def test_days_are_said_where_there_are_several() -> None:
    since_ms = NIGHT_MS - HOUR_MS
    rows = row(NIGHT_MS, holder("a", None), Bucket.STALLED, cause=causes.NO_STEP, since_ms=since_ms)
    assert said(MemoryBook(hour(NIGHT_MS, rows))) == [
        "a: stalled since 2026-11-03 23:00, 1 GPU, 1.0 h, $4.00"
    ]


def test_two_currencies_and_none_are_kept_apart() -> None:
    idle = {"cause": causes.IDLE, "basis": Basis.GPU}
    book = MemoryBook(
        hour(
            NIGHT_MS,
            row(NIGHT_MS, holder("a", "x"), Bucket.ALLOCATED_IDLE, gpus=2, **idle),
            row(NIGHT_MS, holder("b", "x"), Bucket.ALLOCATED_IDLE, gpus=3, currency="CHF", **idle),
            row(NIGHT_MS, holder("c", "x"), Bucket.ALLOCATED_IDLE, price=None, **idle),
        )
    )
    assert [text.rpartition(", ")[2] for text in said(book)] == [
        "CHF 12.00",
        "$8.00",
        "1.0 GPU-hours without a price",
    ]
    rest = why(book, NIGHT, limit=1).rest
    assert {(one.currency, one.quanta // 10**9, one.unpriced_ms, one.causes) for one in rest} == {
        ("USD", 8, 0, 1),
        ("", 0, HOUR_MS, 1),
    }


def test_each_stall_of_a_run_stands_alone() -> None:
    whose = holder("a", None, "run-1")
    rows = [
        row(NIGHT_MS, whose, Bucket.STALLED, ms=ms, cause=causes.NO_STEP, since_ms=NIGHT_MS + ms, step=ms)
        for ms in (600_000, 1_200_000)
    ]
    assert said(MemoryBook(hour(NIGHT_MS, *rows))) == [
        "a: stalled at step 1,200,000 since 00:20, 1 GPU, 20 min, $1.33",
        "a: stalled at step 600,000 since 00:10, 1 GPU, 10 min, $0.67",
    ]


@pytest.mark.parametrize(("again", "said_of"), [(False, [(0, 4)]), (True, [(None, 2), (0, 2), (3, 1)])])
def test_what_hangs_on_is_what_began_before_if_only_one_thing_did(
    again: bool, said_of: list[tuple[int | None, int]]
) -> None:
    """Since when is told in two hours. Where it hung twice, nobody knows which one it is that goes on."""
    whose = holder("train", "vision")
    begun = [0, 0, None, 3 if again else None, *([None] if again else [])]
    book = MemoryBook(
        *(
            hour(at_ms, row(at_ms, whose, Bucket.STALLED, cause=causes.HUNG, basis=Basis.GPU, since_ms=since))
            for number, began in enumerate(begun)
            for at_ms, since in [
                (NIGHT_MS + number * HOUR_MS, None if began is None else NIGHT_MS + began * HOUR_MS)
            ]
        )
    )
    found = [one.episode for one in why(book, NIGHT, limit=20).largest]
    told = [
        (None if one.since_ms is None else (one.since_ms - NIGHT_MS) // HOUR_MS, one.gpu_ms // HOUR_MS)
        for one in found
    ]
    assert sorted(told, key=str) == sorted(said_of, key=str)


@pytest.mark.parametrize("bucket", [one for one in FOR_NOTHING if one is not Bucket.UNALLOCATED])
def test_a_cause_that_is_not_known_by_name_has_words_too(bucket: Bucket) -> None:
    whose = Holder() if bucket.is_fleet else holder("a", None)
    book = MemoryBook(hour(NIGHT_MS, row(NIGHT_MS, whose, bucket, cause="of-tomorrow")))
    (text,) = said(book)
    assert "{" not in text


def test_only_of_a_team() -> None:
    window = Window(NIGHT.from_ms, NIGHT.to_ms, {Dimension.TEAM: ("research",)})
    assert [text.partition(" ")[0] for text in said(MemoryBook(*a_night()), window)] == [
        "llm-pretrain",
        "ablation",
    ]


def test_small_ones_are_gathered_unless_so_many_are_asked_for() -> None:
    idle = {"cause": causes.IDLE, "basis": Basis.GPU}
    rows = [
        row(NIGHT_MS, holder("large", "x"), Bucket.ALLOCATED_IDLE, gpus=50, **idle),
        *(row(NIGHT_MS, holder(f"s{n}", "x"), Bucket.ALLOCATED_IDLE, ms=60_000, **idle) for n in range(30)),
        row(NIGHT_MS, holder("other", "x"), Bucket.ALLOCATED_IDLE, currency="CHF", **idle),
    ]
    book = MemoryBook(hour(NIGHT_MS, *rows))
    found = why(book, NIGHT)
    assert [one.episode.workload.name for one in found.largest if one.episode.workload] == ["large", "other"]
    assert [(one.causes, one.gpu_ms, one.currency) for one in found.rest] == [(30, 30 * 60_000, "USD")]
    assert len(why(book, NIGHT, limit=20).largest) == 20
