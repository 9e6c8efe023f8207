"""What programs tell of their runs: lines of JSON, as the SDK sends them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from bench.torture.fuzz.json_values import bent
from bench.torture.fuzz.no_store import NoRuns
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.collect.runs.intake import RunIntake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

    from trilens.collect.runs.intake import Receipt
    from trilens.collect.runs.wire import Reading

_LINE: Final[dict[str, Any]] = {
    "v": 1,
    "run": "r1",
    "rank": 0,
    "writer": "0" * 32,
    "seq": 0,
    "t_ms": 1_763_000_000_000,
    "process": {"started_ms": 1_763_000_000_000, "node": "gpu-1", "pid": 100, "gpus": ["GPU-1"]},
    "facts": {"created_ms": 1_763_000_000_000, "experiment": "lr", "config": {"lr": 0.1}, "tags": {"a": "b"}},
    "steps": {
        "n": [0, 1],
        "step": [0, 1],
        "start_us": [1_000_000, 2_000_000],
        "us": [400_000, 500_000],
        "samples": [1, 1],
        "phases": {"forward": [100, None]},
        "values": {"loss": [1.0, "NaN"]},
    },
    "batches": [{"n": 0, "step": 0, "dataset": "d", "ids": [7]}, {"n": 1, "step": 1, "range": [0, 2, 1]}],
    "checkpoints": [{"n": 0, "step": 1, "path": "/c/1", "start_ms": 1_763_000_000_000, "us": 2}],
    "validations": [{"n": 0, "step": 1, "t_ms": 1_763_000_000_000, "values": {"loss": 1.0}}],
    "notes": [{"n": 0, "t_ms": 1_763_000_000_000, "kind": "hang", "text": "x", "data": {}}],
    "state": {"heartbeat_s": 2.0, "step": 1},
    "end": {"how": "finished", "t_ms": 1_763_000_000_000},
}


class AtOnce(RunIntake):
    """Without its thread, which gathers for a while before it writes."""

    def take(self, reading: Reading, **how: Any) -> Receipt:
        receipt = super().take(reading, **how)
        self.settle()
        return receipt


def _take(data: bytes) -> None:
    intake = AtOnce(NoRuns())
    for _ in range(2):  # sent again, it adds nothing
        receipt = intake.receive(data, "")
        receipt.taken.result(0)
        if receipt.refusal is not None:
            raise receipt.refusal


def _seeds() -> Iterator[bytes]:
    yield json.dumps(_LINE).encode()
    yield b"\n".join(json.dumps({**_LINE, "seq": seq}).encode() for seq in range(3))


def _large() -> Iterator[bytes]:
    plain = json.dumps(_LINE).encode()
    yield b"[" * LARGE
    yield b"\n" * LARGE + plain
    yield plain.replace(b'"rank": 0', b'"rank": ' + b"9" * LARGE)
    yield plain.replace(b'"seq": 0', b'"seq": ' * MANY)
    yield b"\n".join(json.dumps({**_LINE, "seq": seq}).encode() for seq in range(MANY // 25))
    column = {"n": [*range(MANY)], "step": [*range(MANY, 0, -1)], "start_us": [0] * MANY, "us": [1] * MANY}
    yield json.dumps({**_LINE, "steps": column}).encode()
    yield json.dumps(
        {**_LINE, "facts": {"created_ms": 1, "config": {str(one): one for one in range(MANY)}}}
    ).encode()
    yield json.dumps({**_LINE, "notes": _LINE["notes"] * (MANY // 2)}).encode()


def _shaped() -> SearchStrategy[bytes]:
    return st.lists(bent(_LINE), min_size=1, max_size=3).map(
        lambda lines: b"\n".join(json.dumps(line).encode() for line in lines)
    )


RUN_RECORDS: Final = Target(
    "run-records", "records of runs, as the SDK sends them", _take, _seeds, _shaped, _large
)
