"""Dumps of the flight recorder: PyTorch's own cases, and what nobody should be able to make us run."""

from __future__ import annotations

import json
import os
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flight_dump import DUMP, ENTRY
from servers import require_corpus
from trilens.model import plain_pickle
from trilens.model.errors import FlightRecorderError, UnsafePickle
from trilens.model.flight_recorder import (
    Frame,
    GroupProgress,
    GroupStanding,
    rank_of_file,
    read_flight_recorder,
    standings,
)
from trilens.model.plain_pickle import MAX_DEPTH, read_plain_pickle

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(max_size=5) | st.integers(-(2**59), 2**59), inner, max_size=6)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
    ),
    max_leaves=40,
)


@pytest.mark.parametrize("case", [1, 2, 3, 4, 5, 6])
def test_pytorchs_own_cases_are_read_alike_as_pickle_and_as_json(case: int) -> None:
    (folder,) = (
        one for one in require_corpus("flight-recorder", "cases").glob(f"e2e_{case}_*") if one.is_dir()
    )
    told = json.loads(Path(f"{folder}.json").read_text())["dumps"]
    for file in sorted(folder.iterdir()):
        pickled = read_flight_recorder(file.read_bytes())
        as_json = read_flight_recorder(json.dumps(told[f"dump_file_rank_{rank_of_file(file.name)}"]).encode())
        assert pickled == replace(as_json, rank=None)
        assert as_json.rank == rank_of_file(file.name)
        assert pickled.version == "2.8"
        assert pickled.entries


def test_an_entry_says_what_hangs_and_where_the_program_called_it() -> None:
    dump = read_flight_recorder(pickle.dumps(DUMP, protocol=2))
    (entry,) = dump.entries
    assert (entry.backend, entry.operation, entry.collective_seq) == ("nccl", "all_reduce", 5)
    assert entry.frames == (Frame("step", "train.py", 20),)
    assert entry.started_ns is None
    assert dump.groups["0"].ranks == (0, 1)
    assert dump.progress["0"] == GroupProgress(enqueued=5, started=None, completed=4)


def test_how_far_a_rank_has_come_in_each_group() -> None:
    over = ENTRY | {"collective_seq_id": 4, "state": "completed"}
    ahead = ENTRY | {"collective_seq_id": 6, "profiling_name": "nccl:broadcast"}
    send = ENTRY | {"collective_seq_id": 3, "profiling_name": "nccl:send 1->0", "is_p2p": True}
    retired = ENTRY | {"process_group": ("1", "tp"), "collective_seq_id": 9, "retired": True}
    dump = read_flight_recorder(json.dumps(DUMP | {"entries": [over, ahead, ENTRY, send, retired]}).encode())
    all_of_them, others = standings(dump)
    assert all_of_them == GroupStanding("0", "default_pg", 0, 2, entered=6, pending=5, operation="all_reduce")
    assert (others.group, others.entered, others.pending) == ("1", 9, None)
    assert GroupStanding.of(all_of_them._asdict()) == all_of_them
    assert GroupStanding.of({"group": "0", "entered": "5"}) is None


def test_a_status_that_counts_sends_does_not_say_how_many_collectives_were_entered() -> None:
    """Over gloo: the status has the number of operations, the entries those of collectives."""
    status = {"0": {"last_enqueued_collective": 9, "last_completed_collective": 8}}
    (standing,) = standings(read_flight_recorder(json.dumps(DUMP | {"pg_status": status}).encode()))
    assert standing.entered == 5


def test_the_rank_is_at_the_end_of_the_name_whatever_else_is_in_it() -> None:
    names = (
        "nccl_trace_rank_3",
        "nccl_trace_rank_container-node02_3",
        "comm_lib_trace_rank_3.json",
        "rank3.pkl",
    )
    assert {rank_of_file(name) for name in names} == {3}
    assert rank_of_file("train.log") is None


def test_a_dump_without_entries_says_it_by_its_status() -> None:
    (standing,) = standings(read_flight_recorder(json.dumps(DUMP | {"entries": []}).encode()))
    assert (standing.entered, standing.pending) == (5, None)


def test_json_has_zero_where_a_moment_is_unknown() -> None:
    entry = ENTRY | {"time_discovered_started_ns": 0, "profiling_name": "nccl:send 1->2"}
    (read,) = read_flight_recorder(json.dumps(DUMP | {"entries": [entry]}).encode()).entries
    assert (read.started_ns, read.operation, read.peers) == (None, "send", "1->2")


@given(PLAIN, st.integers(3, 5))  # 2 has no bytes: it calls a function that makes them
def test_plain_data_comes_back_as_pickle_reads_it(value: object, protocol: int) -> None:
    assert read_plain_pickle(pickle.dumps(value, protocol=protocol)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        found = read_plain_pickle(b"\x80\x02" + content)
    except UnsafePickle as refused:
        assert str(refused)
    else:
        assert found is None or isinstance(found, dict | list | tuple | str | bytes | int | float)


class _Runs:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_that_would_run_something_is_refused_and_does_not(tmp_path: Path, protocol: int) -> None:
    ran = tmp_path / "ran"
    with pytest.raises(UnsafePickle, match="more than plain data"):
        read_flight_recorder(pickle.dumps({"version": _Runs(ran)}, protocol=protocol))
    assert not ran.exists()


def test_what_would_grow_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_VALUES", 10_000)
    laughs: object = "ha"
    for _ in range(30):
        laughs = [laughs] * 10
    with pytest.raises(UnsafePickle, match=r"more than .* values"):
        read_plain_pickle(pickle.dumps(laughs))

    deep: object = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(UnsafePickle, match="nested deeper"):
        read_plain_pickle(pickle.dumps(deep))

    round_and_round: list[object] = []
    round_and_round.append(round_and_round)
    with pytest.raises(UnsafePickle, match="nested deeper"):
        read_plain_pickle(pickle.dumps(round_and_round))


def test_more_instructions_than_a_dump_can_need_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "_MAX_INSTRUCTIONS", 1000)
    with pytest.raises(UnsafePickle, match="more than 1000 instructions"):
        read_plain_pickle(b"\x80\x04(" + b"]" * 2000 + b"l.")


@pytest.mark.parametrize("key", [2**61 - 1, -(2**61 - 1), (1, 2), 1.5, None, b"k"])
def test_a_key_whose_hash_can_be_chosen_is_refused(key: object) -> None:
    """A megabyte of keys with one hash takes minutes to put into a dict."""
    with pytest.raises(UnsafePickle, match="a key that is neither text nor a small number"):
        read_plain_pickle(pickle.dumps({key: 1}))


def test_lengths_that_lie_allocate_nothing() -> None:
    with pytest.raises(UnsafePickle, match="ends too early"):
        read_plain_pickle(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62))
    kept_far_away = b"\x80\x02K\x01r" + struct.pack("<I", 0xFFFFFFFF) + b"."
    assert read_plain_pickle(kept_far_away) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no bytes"),
        (b"{not json", "neither a pickle nor JSON"),
        (b"[" * 100_000, "damaged|more than plain data"),
        (b'{"entries": []}', "no version"),
        (json.dumps({"version": "2.8", "entries": [3]}).encode(), "an entry that is int"),
        (json.dumps({"version": "2.8", "entries": [{"state": "x"}]}).encode(), "profiling_name"),
        (json.dumps({"version": "2.8", "entries": [ENTRY | {"op_id": 1e999}]}).encode(), "infinity"),
        (pickle.dumps([1]), "no version"),
    ],
    ids=[
        "empty",
        "text",
        "brackets",
        "no-version",
        "entry-not-a-dict",
        "entry-without-name",
        "infinite",
        "a-list",
    ],
)
def test_what_is_not_a_dump_is_named(content: bytes, said: str) -> None:
    with pytest.raises(FlightRecorderError, match=said):
        read_flight_recorder(content)
