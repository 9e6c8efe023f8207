"""GPU time from tables: whose it is, and that none of it is lost or made."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.ledger.allocation.imported_hours import Pool, imported_portions, is_pool
from trilens.model.imported import ImportedJob, UsagePoint
from trilens.model.ledger import FLEET, HOUR_MS, Bucket, Holder
from trilens.model.ledger_facts import Facts
from trilens.model.workload import WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR = 500_000 * HOUR_MS
MINUTE = 60_000
USED = WorkloadKey("c", "old", "", "ImportedUsage", "old", "")


def job(
    name: str, began: int, ended: int | None, gpus: Fraction | int = 1, **more: str | None
) -> ImportedJob:
    """In minutes of the hour."""
    end_ms = None if ended is None else HOUR + ended * MINUTE
    return ImportedJob("old", "c", name, None, HOUR + began * MINUTE, end_ms, Fraction(gpus), **more)


def used(
    began: int, minutes: int, in_use: Fraction | int, there: int | None = None, **more: str | None
) -> UsagePoint:
    whole = None if there is None else Fraction(there)
    return UsagePoint("old", "c", HOUR + began * MINUTE, minutes * MINUTE, Fraction(in_use), whole, **more)


def pools(
    jobs: Sequence[ImportedJob] = (),
    usage: Sequence[UsagePoint] = (),
    from_ms: int = HOUR,
    to_ms: int = HOUR + HOUR_MS,
) -> list[Pool]:
    return imported_portions(Facts(from_ms, to_ms, jobs=jobs, usage=usage), from_ms, to_ms)


def minutes(pool: Pool) -> dict[str, float]:
    """By job, team or `free`."""
    return {
        (portion.holder.workload.name if portion.holder.workload else "free"): portion.gpu_ms / MINUTE
        for portion in pool.portions
    }


def codes(pool: Pool) -> list[str]:
    return [warned.doubt.code for warned in pool.doubts]


def test_jobs_are_holders_of_their_own() -> None:
    [pool] = pools(
        [job("1", -30, 30, 8, team="nlp", queue="gold", model="a100"), job("2", 10, 20, Fraction(1, 7))]
    )[1:]
    assert pool.machine.node == "import/old/a100"
    assert (pool.machine.gpu_model, pool.machine.gpus) == ("a100", None)
    key = WorkloadKey("c", "old", "", "ImportedJob", "1", "")
    assert pool.portions == [
        (Holder(workload=key, team="nlp", queue="gold"), Bucket.PRODUCTIVE, "imported", 8 * 30 * MINUTE)
    ]
    assert pool.stretches == [(HOUR, HOUR + 30 * MINUTE, 8)]


def test_a_pool_never_has_the_name_of_a_node() -> None:
    assert [pool.machine.node for pool in pools([job("1", 0, 60)])] == ["import/old"]
    assert (is_pool("import/old"), is_pool("old"), is_pool("import-1")) == (True, False, False)


def test_usage_beyond_jobs_and_what_is_free() -> None:
    """A job of two GPUs for half of an hour in which five of eight were in use."""
    [pool] = pools([job("1", 0, 30, 2)], [used(0, 60, 5, 8)])
    assert minutes(pool) == {"1": 60, "old": 60 * 5 - 60, "free": 60 * 3}
    assert pool.portions[1].holder == Holder(workload=USED)
    assert pool.portions[2][:3] == (FLEET, Bucket.UNALLOCATED, "free")
    assert pool.stretches == [(HOUR, HOUR + HOUR_MS, 8)]
    assert pool.doubts == ()


def test_time_that_no_row_tells_of_is_not_free() -> None:
    [pool] = pools(usage=[used(0, 10, 1, 2), used(50, 20, 1, 2)])
    assert minutes(pool) == {"old": 20, "free": 20}
    assert pool.stretches == [(HOUR, HOUR + 10 * MINUTE, 2), (HOUR + 50 * MINUTE, HOUR + 60 * MINUTE, 2)]


def test_more_in_use_than_there() -> None:
    [pool] = pools(usage=[used(0, 60, 9, 8)])
    assert (minutes(pool), pool.stretches[0].gpus) == ({"old": 540}, 9)
    assert [(warned.doubt.code, warned.gpu_ms) for warned in pool.doubts] == [
        ("more-in-use-than-there", HOUR_MS)
    ]


def test_more_jobs_than_usage_or_gpus() -> None:
    [pool] = pools([job("1", 0, 60, 4)], [used(0, 60, 3, 3)])
    assert (minutes(pool), pool.stretches[0].gpus) == ({"1": 240}, 4)
    assert codes(pool) == ["jobs-exceed-usage"]


def test_rows_of_usage_that_overlap_end_where_the_next_begins() -> None:
    [pool] = pools(usage=[used(0, 40, 4), used(30, 30, 2)])
    assert minutes(pool) == {"old": 4 * 30 + 2 * 30}
    assert [(warned.doubt.code, warned.gpu_ms) for warned in pool.doubts] == [
        ("overlapping-usage", 40 * MINUTE)
    ]


def test_tables_of_two_teams_are_of_different_gpus() -> None:
    [pool] = pools([job("1", 0, 60, 2)], [used(0, 60, 2, 4, team="a"), used(0, 60, 4, 4, team="b")])
    teams = {portion.holder.team: portion.gpu_ms // MINUTE for portion in pool.portions[1:3]}
    assert teams == {"a": 80, "b": 160}  # what the job does not cover, by what each had in use
    assert pool.portions[3].gpu_ms == 2 * HOUR_MS


def test_a_job_without_an_end_or_a_time() -> None:
    [pool] = pools([job("1", 30, None), job("2", 10, 10), job("3", 20, 10), job("4", 0, 60, 0)])
    assert minutes(pool) == {"1": 30}
    assert [(warned.doubt.code, warned.gpu_ms) for warned in pool.doubts] == [
        ("job-without-end", 30 * MINUTE)
    ]


def test_a_job_that_does_not_tell_its_gpus_has_those_of_the_usage() -> None:
    [pool] = pools([job("1", 0, 60)], [used(0, 60, 3, 4, model="V100")])
    assert (pool.machine.node, minutes(pool)) == ("import/old/V100", {"1": 60, "old": 120, "free": 60})
    apart = pools([job("1", 0, 60, model="A100")], [used(0, 60, 3, 4, model="V100")])
    assert [pool.machine.gpu_model for pool in apart] == ["A100", "V100"]


def test_other_hours_have_none_of_it() -> None:
    assert pools([job("1", -60, 0), job("2", 60, 90)], [used(-60, 60, 1), used(60, 1, 1)]) == []


_GPUS = st.sampled_from([Fraction(1, 7), Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(8)])
_MOMENTS = st.integers(HOUR - 1_000, HOUR + 2_000)
_JOBS = st.builds(
    lambda name, at, ms, gpus: ImportedJob("old", "c", str(name), None, at, at + ms, gpus),
    st.integers(0, 9), _MOMENTS, st.integers(0, 1_500), _GPUS,
)  # fmt: skip
_POINTS = st.builds(
    lambda at, ms, in_use, there: UsagePoint("old", "c", at, ms, in_use, there),
    _MOMENTS, st.integers(1, 900), _GPUS, st.none() | _GPUS,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_JOBS, max_size=6, unique_by=lambda job: job.job),
    st.lists(_POINTS, max_size=6, unique_by=lambda point: point.t_ms),
    st.randoms(use_true_random=False),
)
def test_portions_add_up_in_whatever_order(
    jobs: list[ImportedJob], usage: list[UsagePoint], shuffled: object
) -> None:
    found = pools(jobs, usage, HOUR, HOUR + 1_000)
    for pool in found:
        whole = sum((one.gpus * (one.to_ms - one.from_ms) for one in pool.stretches), Fraction())
        assert pool.gpu_ms == int(whole)
        assert all(portion.gpu_ms > 0 for portion in pool.portions)
        ends = [HOUR, *(one.to_ms for one in pool.stretches)]
        assert all(one.from_ms >= end for one, end in zip(pool.stretches, ends, strict=False))
        held = {one.holder.workload.name: one.gpu_ms for one in pool.portions if one.holder.workload}
        for one in jobs:  # a job has what it had, to the millisecond that is divided
            ms = max(0, min(one.end_ms or 0, HOUR + 1_000) - max(one.start_ms, HOUR))
            assert abs(held.get(one.job, 0) - one.gpus * ms) < 1
    shuffled.shuffle(jobs)  # type: ignore[attr-defined]
    shuffled.shuffle(usage)  # type: ignore[attr-defined]
    assert pools(jobs, usage, HOUR, HOUR + 1_000) == found
