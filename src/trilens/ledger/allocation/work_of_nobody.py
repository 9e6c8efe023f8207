"""GPUs that work while nobody is known to hold them: their time counts as free, which has to be said."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from trilens.ledger.telemetry.coarse import RAN, SHORTEST
from trilens.ledger.telemetry.minutes import MINUTE_MS

if TYPE_CHECKING:
    from trilens.ledger.source import GpuMinutes
    from trilens.model.ledger_facts import Facts


def work_of_nobody_ms(facts: Facts, gpus: GpuMinutes) -> int:
    """Minutes in which kernels ran on a GPU that is bound to nobody, of those with some in a row: that a pod
    has it is seen a moment later than its first kernel."""
    first = max((facts.from_ms - gpus.from_ms) // MINUTE_MS, 0)
    base_ms = gpus.from_ms + first * MINUTE_MS
    ran = (gpus.active[:, first:] >= RAN) | (gpus.busy[:, first:] >= RAN)
    if not ran.any():
        return 0
    of_device: defaultdict[str, list[int]] = defaultdict(list)
    for (uuid, _), row in gpus.gpus.items():
        of_device[uuid].append(row)
    all_the_time: list[int] = []
    for binding, from_ms, to_ms in facts.bindings:
        uuid, instance = binding.gpu
        # Of a GPU in parts the whole works for each of them, and each part for who has the whole.
        parts = [(uuid, instance), (uuid, "")] if instance else []
        rows = [gpus.gpus[part] for part in parts if part in gpus.gpus] or of_device.get(uuid, [])
        if from_ms <= base_ms and to_ms is None:
            all_the_time += rows
            continue
        begin = max((from_ms - base_ms) // MINUTE_MS, 0)
        end = ran.shape[1] if to_ms is None else max(-((base_ms - to_ms) // MINUTE_MS), 0)
        for row in rows:
            ran[row, begin:end] = False
    ran[all_the_time] = False
    in_a_row = np.lib.stride_tricks.sliding_window_view(ran, min(SHORTEST, ran.shape[1]), axis=1)
    lasting = set(np.flatnonzero(np.any(np.all(in_a_row, axis=2), axis=1)).tolist())
    works = (rows for rows in of_device.values() if not lasting.isdisjoint(rows))
    return sum(int(ran[rows].any(axis=0).sum()) for rows in works) * MINUTE_MS
