"""How much of a stretch of time a GPU was throttled: the same as counting it minute by minute."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trilens.ledger.allocation.throttling import throttling_of
from trilens.ledger.source import GpuMinutes
from trilens.ledger.telemetry.minutes import MINUTE_MS
from trilens.model.gpu import GpuKey
from trilens.model.workload import GpuUuid

BEGIN_MS = 1_700_000_040_000
GPU = GpuKey(GpuUuid("GPU-0"))
_NOTHING = np.zeros((1, 0))


def _gpu(told: list[float]) -> GpuMinutes:
    return GpuMinutes(BEGIN_MS, {GPU: 0}, _NOTHING, _NOTHING, _NOTHING, np.array([told]))


@given(
    st.lists(st.sampled_from([0.0, 0.3, 1.0, 1.5, -0.5, np.nan, np.inf]), min_size=1, max_size=6),
    st.integers(-90_000, 450_000),
    st.integers(1, 450_000),
    st.integers(0, 450_000),
)
def test_it_is_what_each_minute_has_of_it(told: list[float], at: int, lasts: int, ms: int) -> None:
    found = throttling_of(_gpu(told), BEGIN_MS, BEGIN_MS + len(told) * MINUTE_MS).get(GPU)
    begin, end = BEGIN_MS + at, BEGIN_MS + at + lasts
    slow = 0
    for minute, part in enumerate(told):
        first = BEGIN_MS + minute * MINUTE_MS
        inside = max(min(first + MINUTE_MS, end) - max(first, begin), 0)
        slow += inside * (0 if np.isnan(part) else round(min(max(part, 0.0), 1.0) * 1_000_000))
    assert (0 if found is None else found.part_of(ms, begin, end)) == ms * slow // (lasts * 1_000_000)


def test_only_those_that_were_throttled_in_the_hour_are_told() -> None:
    end_ms = BEGIN_MS + 2 * MINUTE_MS
    assert throttling_of(_gpu([1.0, np.nan]), BEGIN_MS + MINUTE_MS, end_ms) == {}
    assert [*throttling_of(_gpu([np.nan, 0.1]), BEGIN_MS + MINUTE_MS, end_ms)] == [GPU]
