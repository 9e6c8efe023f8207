"""The recent window against the plainest possible model of itself: a dict of lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.model.series import STALE_NAN, stale_mask
from trilens.store.admission import NEVER, Admission
from trilens.store.chunks import CHUNK, CHUNK_BYTES
from trilens.store.window import DEPTH, RecentWindow

BIG = 1_000_000_000_000


def grouped(rows: list[tuple[int, int, float]]) -> tuple[np.ndarray, ...]:
    rows = sorted(rows, key=lambda r: (r[0], r[1]))
    refs = np.array([r[0] for r in rows], dtype=np.int32)
    unique, counts = np.unique(refs, return_counts=True)
    t = np.array([r[1] for r in rows], dtype=np.int64)
    return unique.astype(np.int32), counts, t, np.array([r[2] for r in rows], dtype=np.float64)


def read(window: RecentWindow, ref: int, start: int, end: int) -> list[tuple[int, float]] | None:
    block = window.read(np.array([ref], dtype=np.int32), start, end)
    return None if block is None else list(zip(block.t.tolist(), block.v.tolist(), strict=True))


def test_history_longer_than_a_ring_is_cut_at_its_old_end() -> None:
    window = RecentWindow(10 * DEPTH * CHUNK_BYTES)
    refs = np.arange(3, dtype=np.int32)
    window.cut(refs, BIG)
    lengths = (10, 2 * DEPTH * CHUNK, 40)
    rows = [(ref, BIG - k, float(k)) for ref, n in enumerate(lengths) for k in range(n)]
    window.prepend(*grouped(rows), above=np.full(3, BIG), floor=np.full(3, BIG - 3 * DEPTH * CHUNK))
    floors = window.floors(refs).tolist()
    assert floors[0] == floors[2] == BIG - 3 * DEPTH * CHUNK
    assert BIG - DEPTH * CHUNK < floors[1] < BIG - DEPTH * CHUNK // 2
    for ref, n in enumerate(lengths):
        kept = [(BIG - k, float(k)) for k in range(n) if BIG - k > floors[ref]]
        assert read(window, ref, floors[ref], BIG) == kept[::-1]


steps = st.lists(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 400), st.integers(1, 90_000)), min_size=1, max_size=4
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(steps=steps, chunks=st.integers(64, 200), cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_reads_what_was_written_or_says_it_was_cut(steps, chunks, cuts) -> None:
    window = RecentWindow(chunks * CHUNK_BYTES)
    model: dict[int, list[tuple[int, float]]] = {r: [] for r in range(6)}
    now = dict.fromkeys(range(6), BIG)
    for step in steps:
        rows = []
        for ref, count, gap in step:
            for _ in range(count):
                now[ref] += gap
                rows.append((ref, now[ref], float(now[ref] % 977)))
        window.append(*grouped(rows))
        for ref, t, v in sorted(rows):
            model[ref].append((t, v))
    floors = window.floors(np.arange(6, dtype=np.int32))
    for ref, held in model.items():
        if not held:
            continue
        low, high = held[0][0], held[-1][0]
        start, end = (int(low - 1 + c * (high - low + 2)) for c in sorted(cuts))
        got = read(window, ref, start, end)
        if floors[ref] > start:
            assert got is None
        else:
            assert got == [(t, v) for t, v in held if start < t <= end]
        assert read(window, ref, int(floors[ref]), BIG * 2) == [s for s in held if s[0] > floors[ref]]


def test_the_oldest_chunks_go_first_and_the_newest_stay() -> None:
    window = RecentWindow(64 * CHUNK_BYTES)
    refs = np.arange(8, dtype=np.int32)
    ones = np.ones(8, dtype=np.int64)
    for k in range(20 * CHUNK):
        window.append(refs, ones, np.full(8, BIG + k, dtype=np.int64), np.full(8, float(k)))
    floors = window.floors(refs)
    assert (floors > NEVER).all()
    assert (floors < BIG + 15 * CHUNK).all()  # 64 chunks for 8 series: at least 4 whole ones each
    block = window.read(refs, int(floors.max()), BIG * 2)
    assert block is not None
    assert (block.v[block.offsets[1:] - 1] == 20 * CHUNK - 1).all()


def test_what_queries_look_back_at_is_there_at_any_moment() -> None:
    """Of series that rules record every 30 s and fewer that are scraped, with 630 bytes for each: all begin
    their chunks at much the same time."""
    scraped, recorded = np.arange(374, dtype=np.int32), np.arange(374, 856, dtype=np.int32)
    window = RecentWindow(856 * 630)
    reached_s = []
    for passed_s in range(0, 3600, 15):
        now_ms = BIG + 1000 * passed_s
        for refs, every_s in ((scraped, 15), (recorded, 30)):
            if passed_s % every_s == 0:
                ones = np.ones(len(refs), np.int64)
                window.append(refs, ones, np.full(len(refs), now_ms), np.zeros(len(refs)))
        if (since := window.complete_since()) > NEVER:
            reached_s.append((now_ms - since) / 1000)
    assert reached_s
    assert min(reached_s) > 300


def test_how_far_it_reaches_is_told_once_it_is_full() -> None:
    window = RecentWindow(200 * CHUNK_BYTES)
    refs, ones = np.arange(100, dtype=np.int32), np.ones(100, np.int64)
    assert window.complete_since() == NEVER
    window.append(refs, ones, np.full(100, BIG), np.zeros(100))
    window.cut(refs[:1], BIG - 5)  # a late sample of one
    assert window.complete_since() == NEVER
    window.cut(refs[:60], BIG - 3)
    assert window.complete_since() == BIG - 3


def test_a_series_keeps_at_most_its_ring() -> None:
    window = RecentWindow(10 * DEPTH * CHUNK_BYTES)
    total = (DEPTH + 3) * CHUNK
    window.append(*grouped([(0, BIG + k, 1.0) for k in range(total)]))
    for k in range(total, total + DEPTH * CHUNK):
        window.append(*grouped([(0, BIG + k, 2.0)]))
    held = read(window, 0, int(window.floors(np.array([0]))[0]), BIG * 2)
    assert held is not None
    assert (DEPTH - 1) * CHUNK < len(held) <= DEPTH * CHUNK


def test_samples_decades_apart_do_not_break_offsets() -> None:
    window = RecentWindow(64 * CHUNK_BYTES)
    window.append(*grouped([(0, 1000, 1.0)]))
    window.append(*grouped([(0, BIG, 2.0)]))
    assert read(window, 0, 0, BIG) == [(1000, 1.0), (BIG, 2.0)]
    window.append(*grouped([(1, 1000, 1.0), (1, BIG, 2.0)]))
    assert read(window, 1, 0, BIG) is None
    assert read(window, 1, 1000, BIG) == [(BIG, 2.0)]


@settings(max_examples=60, deadline=None)
@given(before=st.integers(1, 200), after=st.integers(1, 200))
def test_history_is_put_below_what_is_held(before: int, after: int) -> None:
    window = RecentWindow(256 * CHUNK_BYTES)
    refs = np.array([3], dtype=np.int32)
    window.cut(refs, BIG)
    window.append(*grouped([(3, BIG + 1 + k, float(k)) for k in range(after)]))
    history = [(3, BIG - k, -float(k)) for k in range(before)]
    unique, counts, t, v = grouped(history)
    window.prepend(unique, counts, t, v, above=np.array([BIG]), floor=np.array([BIG - before]))
    assert read(window, 3, BIG - before, BIG * 2) == [
        (t, v) for _, t, v in sorted(history + [(3, BIG + 1 + k, float(k)) for k in range(after)])
    ]
    window.prepend(unique, counts, t, v, above=np.array([BIG]), floor=np.array([0]))
    assert read(window, 3, 0, BIG * 2) is None  # the floor had moved: not taken twice


@settings(max_examples=150, deadline=None)
@given(
    gaps=st.lists(st.one_of(st.just(15_000), st.integers(1, 400_000)), min_size=1, max_size=150),
    stale_every=st.integers(2, 40),
    start=st.integers(-600_000, 2_000_000),
    step=st.integers(1, 120_000),
    count=st.integers(1, 60),
    lookback=st.integers(1, 400_000),
)
def test_the_latest_sample_at_each_step(gaps, stale_every, start, step, count, lookback) -> None:
    window = RecentWindow(256 * CHUNK_BYTES)
    times = (BIG + np.cumsum(gaps)).tolist()
    samples = [(t, STALE_NAN if k % stale_every == 1 else float(k)) for k, t in enumerate(times)]
    window.append(*grouped([(2, t, v) for t, v in samples] + [(4, BIG, 7.0)]))
    refs = np.array([4, 2, 5], dtype=np.int32)
    answer = window.latest(refs, BIG + start, step, count, lookback)
    assert answer is not None
    values, present = answer
    for row, series in enumerate(([(BIG, 7.0)], samples, [])):
        for k in range(count):
            now = BIG + start + k * step
            seen = [(t, v) for t, v in series if now - lookback < t <= now]
            if seen and not stale_mask(np.array([seen[-1][1]]))[0]:
                assert present[row, k]
                assert values[row, k] == seen[-1][1]
            else:
                assert not present[row, k]


def admit(admission: Admission, rows: list[tuple[int, int, float]]):
    return admission.admit(
        np.array([r[0] for r in rows], dtype=np.int32),
        np.array([r[1] for r in rows], dtype=np.int64),
        np.array([r[2] for r in rows], dtype=np.float64),
    )


def test_admission_follows_prometheus() -> None:
    admission = Admission()
    assert admit(admission, [(0, BIG, 1.0), (1, BIG, 1.0)]).outcome[:5] == (2, 0, 0, 0, 0)
    assert admit(admission, [(0, BIG, 1.0)]).outcome[:5] == (0, 1, 0, 0, 0)
    assert admit(admission, [(0, BIG, 2.0)]).outcome[:5] == (0, 0, 1, 0, 0)
    assert admit(admission, [(0, BIG - 1, 2.0)]).outcome[:5] == (0, 0, 0, 1, 0)
    assert admit(admission, [(2, BIG - 3_600_001, 2.0)]).outcome[:5] == (0, 0, 0, 0, 1)
    assert admit(admission, [(2, BIG - 3_600_000, 2.0)]).outcome[:5] == (1, 0, 0, 0, 0)


def test_one_batch_may_hold_a_series_many_times() -> None:
    admission = Admission()
    taken = admit(admission, [(1, BIG + 2, 2.0), (0, BIG, 1.0), (1, BIG + 1, 1.0), (1, BIG + 3, 3.0)])
    assert taken.outcome[:5] == (3, 0, 0, 1, 0)
    assert taken.refs.tolist() == [0, 1]
    assert taken.t.tolist() == [BIG, BIG + 2, BIG + 3]


def test_the_out_of_order_window_takes_late_samples_and_says_so() -> None:
    admission = Admission(out_of_order_ms=10_000)
    admit(admission, [(0, BIG, 1.0)])
    taken = admit(admission, [(0, BIG - 10_000, 2.0)])
    assert taken.outcome[:5] == (1, 0, 0, 0, 0)
    assert taken.late.tolist() == [True]
    assert admission.newest_t[0] == BIG
    assert admission.oldest_t[0] == BIG - 10_000
    assert admit(admission, [(0, BIG - 10_001, 2.0)]).outcome.out_of_order == 1


def test_series_that_leave_give_their_chunks_back_and_send_readers_to_the_disk() -> None:
    window = RecentWindow(256 * CHUNK_BYTES)
    rows = [(ref, BIG + k, float(ref)) for ref in range(3) for k in range(100)]
    window.append(*grouped(rows))
    used = window.memory()[0]
    window.leave(np.array([0, 2], dtype=np.int32))
    assert window.memory()[0] == used // 3
    assert read(window, 0, BIG - 1, BIG * 2) is None
    assert window.latest(np.array([2], np.int32), BIG, 1, 1, 1) is None
    assert len(read(window, 1, BIG - 1, BIG * 2) or ()) == 100
    window.enter(np.array([0], np.int32), BIG + 50)  # another series takes the reference
    window.append(*grouped([(0, BIG + 200, 7.0)]))
    assert read(window, 0, BIG + 50, BIG * 2) == [(BIG + 200, 7.0)]
    assert read(window, 0, BIG, BIG * 2) is None
