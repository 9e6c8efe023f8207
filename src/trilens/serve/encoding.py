"""Query results as the JSON that Prometheus writes, without a Python object per point.

A range query answers with hundreds of thousands of points. They become text in Arrow's string kernels: one
prefix per step (`"],[1700000000,"`), one text per value, joined element by element. The joined texts lie one
after the other in a single buffer, so a series is a slice of it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame
    from trilens.model.series import Floats, SampleBlock, Times

_FEW: Final = 64  # below this many, a Python loop beats the set-up cost of a kernel
_CHUNK: Final = 1 << 20  # points per round: keeps Arrow's 32-bit string offsets and the peak memory in bounds
_EXACT: Final = float(1 << 53)  # whole numbers up to here print the same as integers
_SEPARATOR: Final = len('"],')  # what the first point of a series does not need


def number_text(value: float) -> str:
    """The shortest text that reads back as `value`, spelled as Go spells it."""
    if value != value:
        return "NaN"
    if value in (np.inf, -np.inf):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" in text:
        if 1e-6 <= abs(value) < 1e21:
            text = format(Decimal(text), "f")
    elif text.endswith(".0"):
        text = text[:-2]
    return text


def scalar_text(value: float) -> str:
    """A scalar result's number, which Prometheus writes without an exponent at any size."""
    text = number_text(value)
    return format(Decimal(text), "f") if "e" in text else text


def number_texts(values: Floats) -> pa.StringArray:
    """`number_text` of a whole array."""
    size = np.abs(values)
    with np.errstate(invalid="ignore"):  # a signalling NaN, such as the staleness marker
        whole = (size <= _EXACT) & (values == np.trunc(values)) & ~((values == 0) & np.signbit(values))
    if whole.all():
        return _whole_texts(values)
    text = pc.cast(pa.array(values), pa.string())
    # Arrow turns to exponents at 1e10 already, and writes them and the special values in its own way.
    ours = ~((size >= 1e-6) & (size < 1e10)) & (size != 0)
    if not ours.any():
        return text
    middle = ours & ~whole & (size >= 1e10) & (size < _EXACT)  # bytes a second of a fast link, say
    for where, write in (
        (ours & whole, _whole_texts),
        (middle, _middle_texts),
        (ours & ~whole & ~middle, _single_texts),
    ):
        if where.any():
            text = pc.replace_with_mask(text, pa.array(where), write(values[where]))
    return text


def _whole_texts(values: Floats) -> pa.StringArray:
    return pc.cast(pa.array(values.astype(np.int64)), pa.string())


def _middle_texts(values: Floats) -> pa.StringArray:
    """Fractions between 1e10 and 2^53, which orjson, as Go, writes without an exponent."""
    text = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return pa.array(text[1:-1].decode().split(","), pa.string())


def _single_texts(values: Floats) -> pa.StringArray:
    return pa.array(map(number_text, values.tolist()), pa.string())


def time_text(t_ms: int) -> str:
    """Seconds, with three decimals where there are any."""
    sign = "-" if t_ms < 0 else ""
    seconds, ms = divmod(abs(t_ms), 1000)
    return f"{sign}{seconds}.{ms:03}" if ms else f"{sign}{seconds}"


def time_texts(t_ms: Times) -> Iterable[str]:
    seconds, ms = np.divmod(t_ms, 1000)
    if ms.any() or (t_ms < 0).any():
        return map(time_text, t_ms.tolist())
    return map(str, seconds.tolist())


def label_texts(frame: LabelFrame) -> list[bytes]:
    """Each series' labels as a JSON object."""
    if len(frame) <= _FEW:
        return [orjson.dumps(frame.labels(row)) for row in range(len(frame))]
    pairs = []
    for j, name in enumerate(frame.names):
        codes, inverse = np.unique(frame.codes[:, j], return_inverse=True)
        key = orjson.dumps(name).decode()
        texts = [
            f"{key}:{orjson.dumps(frame.symbols.text(code)).decode()}" if code else None
            for code in codes.tolist()
        ]
        pairs.append(pa.array(texts, pa.string()).take(pa.array(inverse.reshape(-1))))
    if not pairs:
        return [b"{}"] * len(frame)
    joined = pc.binary_join_element_wise(*pairs, ",", null_handling="skip")
    return [b"{%b}" % text.encode() for text in joined.to_pylist()]


def json_vector(labels: LabelFrame, values: Floats, t_ms: int) -> bytes:
    """`[{"metric":{...},"value":[t,"v"]},...]`"""
    numbers = map(number_text, values.tolist()) if len(values) <= _FEW else number_texts(values).to_pylist()
    stamp = time_text(t_ms).encode()
    return b"[%b]" % b",".join(
        b'{"metric":%b,"value":[%b,"%b"]}' % (metric, stamp, number.encode())
        for metric, number in zip(label_texts(labels), numbers, strict=True)
    )


def json_matrix(
    labels: LabelFrame, steps_ms: Times, values: Floats, present: NDArray[np.bool_] | None = None
) -> bytes:
    """`[{"metric":{...},"values":[[t,"v"],...]},...]`; a series with nothing present is left out."""
    prefixes = pa.array([f'"],[{t},"' for t in time_texts(steps_ms)], pa.string())
    rows_per_round = max(1, _CHUNK // max(1, len(steps_ms)))
    pieces: list[bytes | memoryview] = []
    metrics = label_texts(labels)
    for start in range(0, len(values), rows_per_round):
        rows = slice(start, start + rows_per_round)
        block = values[rows]
        if present is None:
            step = np.tile(np.arange(len(steps_ms), dtype=np.int32), len(block))
            counts = np.full(len(block), len(steps_ms))
            flat = block.reshape(-1)
        else:
            step = np.nonzero(present[rows])[1].astype(np.int32)
            counts = present[rows].sum(axis=1)
            flat = block[present[rows]]
        pieces += _series(metrics[rows], prefixes.take(pa.array(step)), flat, counts)
    return _array(pieces)


def json_samples(labels: LabelFrame, samples: SampleBlock) -> bytes:
    """The same for series that each have their own timestamps."""
    metrics = label_texts(labels)
    pieces: list[bytes | memoryview] = []
    first = 0
    while first < len(metrics):
        # At least one series a round, then as many as fit.
        last = int(np.searchsorted(samples.offsets, samples.offsets[first] + _CHUNK, side="right")) - 1
        last = min(max(last, first + 1), len(metrics))
        a, b = int(samples.offsets[first]), int(samples.offsets[last])
        distinct, at = np.unique(samples.t[a:b], return_inverse=True)
        prefixes = pa.array([f'"],[{time_text(t)},"' for t in distinct.tolist()], pa.string())
        counts = np.diff(samples.offsets[first : last + 1])
        pieces += _series(
            metrics[first:last], prefixes.take(pa.array(at.reshape(-1))), samples.v[a:b], counts
        )
        first = last
    return _array(pieces)


def _series(
    metrics: list[bytes], prefixes: pa.StringArray, values: Floats, counts: NDArray[Any]
) -> Iterator[bytes | memoryview]:
    """One JSON object per series, in pieces; each begins with the comma before it."""
    joined = pc.binary_join_element_wise(prefixes, number_texts(np.ascontiguousarray(values)), "")
    _, offset_buffer, data = joined.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[joined.offset :]
    ends = np.concatenate(([0], np.cumsum(counts)))
    bounds = offsets[ends].tolist() if len(values) else [0] * len(ends)
    text = memoryview(data) if data is not None else memoryview(b"")
    for metric, start, end in zip(metrics, bounds[:-1], bounds[1:], strict=True):
        if start != end:
            yield b',{"metric":%b,"values":[' % metric
            yield text[start + _SEPARATOR : end]
            yield b'"]]}'


def _array(pieces: list[bytes | memoryview]) -> bytes:
    if not pieces:
        return b"[]"
    pieces[0] = bytes(pieces[0])[1:]
    return b"".join([b"[", *pieces, b"]"])
