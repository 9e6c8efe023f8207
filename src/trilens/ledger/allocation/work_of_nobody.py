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
    minutes = ran.shape[1]
    all_the_time: list[int] = []
    for binding, from_ms, to_ms in facts.bindings:
        uuid, instance = binding.gpu
        rows = of_device.get(uuid, [])
        if instance:
            # Of a GPU in parts the whole works for each of them, and each part for who has the whole.
            rows = [gpus.gpus[part] for part in ((uuid, instance), (uuid, "")) if part in gpus.gpus] or rows
        begin = max((from_ms - base_ms) // MINUTE_MS, 0)
        end = minutes if to_ms is None else max(-((base_ms - to_ms) // MINUTE_MS), 0)
        if begin == 0 and end >= minutes:
            all_the_time += rows
            continue
        for row in rows:
            ran[row, begin:end] = False
    ran[all_the_time] = False
    lasts = np.zeros(len(ran), np.bool_)
    at_work = np.flatnonzero(ran.any(axis=1))
    in_a_row = np.lib.stride_tricks.sliding_window_view(ran[at_work], min(SHORTEST, minutes), axis=1)
    lasts[at_work] = np.any(np.all(in_a_row, axis=2), axis=1)
    for rows in of_device.values():
        if len(rows) > 1:  # a device in parts works once, however many of them do
            ran[rows[0]], lasts[rows[0]] = ran[rows].any(axis=0), lasts[rows].any()
            lasts[rows[1:]] = False
    return int(ran[lasts].sum()) * MINUTE_MS
