"""Dumps of flight recorders, a pickle or JSON: never run, always told. The same bytes stand for two ranks."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from bench.torture.fuzz.corpora import of_tests, shared
from bench.torture.fuzz.json_values import bent
from bench.torture.fuzz.target import LARGE, MANY, Target
from flight_dump import DUMP
from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.reading import DumpSource, read_dumps
from trilens.model.flight_recorder import read_flight_recorder, standings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

_OTHER: Final = json.dumps({**DUMP, "entries": []}).encode()


class _Harm:
    """What a hostile pickle has done when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('ran')",))


def _take(data: bytes) -> None:
    standings(read_flight_recorder(data))
    sources = [DumpSource("rank_0", data), DumpSource("rank_1", data), DumpSource("rank_2", _OTHER)]
    verdict = judge_dumps(read_dumps(sources))
    assert 0 <= verdict.confidence <= 1


def _seeds() -> Iterator[bytes]:
    yield json.dumps(DUMP).encode()
    yield from (pickle.dumps(DUMP, protocol) for protocol in range(6))
    yield pickle.dumps({**DUMP, "entries": [_Harm()]})
    yield pickle.dumps(_Harm(), 0)
    yield from shared("flight-recorder/cases/*")
    yield from shared("flight-recorder/cases/*/*")
    for text in of_tests("diagnose/gloo_flight/*.json"):
        yield from _each_rank(text)


def _each_rank(text: bytes) -> Iterator[bytes]:
    told = json.loads(text)
    for one in told.values() if isinstance(told, dict) else told:
        if isinstance(one, dict) and "version" in one:
            yield json.dumps(one).encode()


def _large() -> Iterator[bytes]:
    for opcode in (b"(", b"]", b"}", b"2", b"0", b"N", b"\x94", b"I1\n", b"(lp0\n", b"]2a"):
        yield b"\x80\x04" + opcode * (4 * MANY) + b"."
    twice: list[Any] = []
    for _ in range(60):
        twice = [twice, twice]
    yield pickle.dumps({**DUMP, "entries": twice})  # small, and as a tree without end
    yield b"[" * LARGE
    yield b'{"entries": [' + b"{}," * MANY + b"{}]}"
    yield json.dumps({**DUMP, "entries": DUMP["entries"] * (MANY // 100)}).encode()


def _shaped() -> SearchStrategy[bytes]:
    bent_dump = bent(json.loads(json.dumps(DUMP)))
    written = bent_dump.map(lambda one: json.dumps(one).encode())
    pickled = st.builds(pickle.dumps, bent_dump, st.integers(0, 5))
    return written | pickled


FLIGHT: Final = Target(
    "flight-dumps", "dumps of flight recorders: pickle and JSON", _take, _seeds, _shaped, _large
)
