"""Protobuf by its bytes, for what is the same in nearly every series of nearly every request.

A series with one sample, which is what a scraping sender sends, ends in 18 bytes of known shape; 9 when the
value is 0, which protobuf leaves out. All of them are read at once. Whatever looks otherwise is decoded by
the protobuf library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.series import Floats, Handles, Times

LABELS_TAG: Final = 0x0A  # field 1, length-delimited
SAMPLE_TAG: Final = 0x12  # field 2, length-delimited
LONGEST_VARINT: Final = 10  # bytes: 64 bits; the protobuf library reads none that is longer
_VALUE_TAG: Final = 0x09
_TIME_TAG: Final = 0x10
_TIME_BYTES: Final = 6  # milliseconds from 2004 to 2109 take six bytes

_HEAD = [("tag", "u1"), ("size", "u1")]
_TIME = [("time_tag", "u1"), ("time", "u1", (_TIME_BYTES,))]
_WITH_VALUE: Final = np.dtype([*_HEAD, ("value_tag", "u1"), ("value", "<f8"), *_TIME])
_WITHOUT_VALUE: Final = np.dtype([*_HEAD, *_TIME])
SAMPLE_BYTES: Final = _WITH_VALUE.itemsize
ZERO_SAMPLE_BYTES: Final = _WITHOUT_VALUE.itemsize


class Samples(NamedTuple):
    refs: Handles
    t_ms: Times
    values: Floats


class SampleCollector:
    """One request's samples, put together at the end in the order in which they came."""

    def __init__(self) -> None:
        self._blocks: list[tuple[NDArray[np.int64], Samples]] = []
        self._positions: list[int] = []
        self._refs: list[int] = []
        self._times: list[int] = []
        self._values: list[float] = []
        self.odd: list[int] = []  # positions of encoded samples that were not what their length promised

    def add(self, position: int, ref: int, t_ms: int, value: float) -> None:
        self._positions.append(position)
        self._refs.append(ref)
        self._times.append(t_ms)
        self._values.append(value)

    def add_encoded(self, positions: Sequence[int], refs: Sequence[int], fields: bytes, size: int) -> None:
        """Many sample fields of one size, SAMPLE_BYTES or ZERO_SAMPLE_BYTES, one after the other."""
        at = np.array(positions, np.int64)
        t_ms, values, ok = _decode(fields, _WITH_VALUE if size == SAMPLE_BYTES else _WITHOUT_VALUE)
        block = Samples(np.array(refs, np.int64), t_ms, values)
        if not ok.all():
            self.odd += at[~ok].tolist()
            at, block = at[ok], Samples(block.refs[ok], t_ms[ok], values[ok])
        self._blocks.append((at, block))

    def add_run(self, position: int, ref: int, fields: bytes) -> bool:
        """Several samples of one series; False, and nothing taken, if `fields` hold anything else."""
        if len(fields) % SAMPLE_BYTES or not fields:
            return False
        t_ms, values, ok = _decode(fields, _WITH_VALUE)
        if not ok.all():
            return False
        at = np.full(len(t_ms), position, np.int64)
        self._blocks.append((at, Samples(np.full(len(t_ms), ref, np.int64), t_ms, values)))
        return True

    def finish(self) -> Samples:
        plain = Samples(
            np.array(self._refs, np.int64),
            np.array(self._times, np.int64),
            np.array(self._values, np.float64),
        )
        blocks = [*self._blocks, (np.array(self._positions, np.int64), plain)]
        order = np.argsort(np.concatenate([at for at, _ in blocks]), kind="stable")
        columns = zip(*(block for _, block in blocks), strict=True)
        return Samples(*(np.concatenate(column)[order] for column in columns))


def _decode(data: bytes, shape: np.dtype[np.void]) -> tuple[Times, Floats, NDArray[np.bool_]]:
    """(times, values, which rows really have this shape)."""
    rows = np.frombuffer(data, dtype=shape)
    has_value = "value" in (shape.names or ())
    time = rows["time"]
    ok = (rows["tag"] == SAMPLE_TAG) & (rows["size"] == shape.itemsize - 2) & (rows["time_tag"] == _TIME_TAG)
    ok &= (time[:, :-1] >= 0x80).all(axis=1) & (time[:, -1] < 0x80)
    if has_value:
        ok &= rows["value_tag"] == _VALUE_TAG
    shifts = np.arange(_TIME_BYTES, dtype=np.int64) * 7
    t_ms: Times = ((time & 0x7F).astype(np.int64) << shifts).sum(axis=1)
    values = rows["value"].astype(np.float64) if has_value else np.zeros(len(rows))
    return t_ms, values, ok


def decode_varints(octets: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """(the numbers of a run of varints, the offset of each one's last byte). Below zero is one that is too
    large, or longer than any may be."""
    ends = np.flatnonzero(octets < 0x80)
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.intp), ends[:-1] + 1])
    lengths = ends - starts + 1
    numbers = (octets[starts] & 0x7F).astype(np.int64)
    for k in range(1, min(int(lengths.max(initial=0)), LONGEST_VARINT)):
        longer = lengths > k
        numbers[longer] |= (octets[starts[longer] + k] & 0x7F).astype(np.int64) << (7 * k)
    numbers[lengths > LONGEST_VARINT] = -1
    return numbers, ends
