"""What the rows of a book come to, node by node: for checking them against the bills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from trilens.ledger.verify import NodeSum

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACE: Final = ["hour_ms", "cluster", "node"]
_READ: Final = [*_PLACE, "gpu", "gpu_ms", "throttled_ms", "quanta", "currency"]


def node_sums(batches: Sequence[pa.RecordBatch]) -> list[NodeSum]:
    """Of all rows of some hours."""
    if not batches:
        return []
    rows = pa.Table.from_batches(batches).select(_READ)
    has_price = pc.is_valid(rows["quanta"])
    none = pa.scalar(None, pa.string())
    rows = (
        rows.append_column("unpriced", pc.if_else(has_price, 0, rows["gpu_ms"]))
        .append_column("priced_in", pc.if_else(has_price, rows["currency"], none))
        .append_column("too_long", pc.cast(pc.greater(rows["throttled_ms"], rows["gpu_ms"]), pa.int64()))
    )
    of_gpu = (
        rows.filter(pc.not_equal(rows["gpu"], "")).group_by([*_PLACE, "gpu"]).aggregate([("gpu_ms", "sum")])
    )
    longest = {
        (one["hour_ms"], one["cluster"], one["node"]): one["gpu_ms_sum_max"]
        for one in of_gpu.group_by(_PLACE).aggregate([("gpu_ms_sum", "max")]).to_pylist()
    }
    found = rows.group_by(_PLACE).aggregate(
        [
            *((name, "sum") for name in ("gpu_ms", "unpriced", "quanta", "throttled_ms", "too_long")),
            *((name, "min") for name in ("gpu_ms", "throttled_ms", "quanta")),
            ("priced_in", "distinct"),
        ]
    )
    return [
        NodeSum(
            *(place := (one["hour_ms"], one["cluster"], one["node"])),
            gpu_ms=one["gpu_ms_sum"],
            unpriced_ms=one["unpriced_sum"],
            quanta=one["quanta_sum"] or 0,
            currencies=frozenset(name for name in one["priced_in_distinct"] if name is not None),
            longest_gpu_ms=longest.get(place, 0),
            least=min(one["gpu_ms_min"], one["throttled_ms_min"], one["quanta_min"] or 0),
            throttled_ms=one["throttled_ms_sum"],
            throttled_too_long=one["too_long_sum"],
        )
        for one in found.to_pylist()
    ]
