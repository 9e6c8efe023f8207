"""`trilens flight` on dumps that somebody made to do harm, or that are no dumps: the others still tell."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flight_dumps import dump, op
from trilens.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = {"0": range(3)}
WAITS = dump([op("all_reduce", 1), op("all_reduce", 2, "started")], GROUPS)
AWAY = dump([op("all_reduce", 1)], GROUPS)


def _with(**more: Any) -> dict[str, Any]:
    return dump([op("all_reduce", 2, "started", **more)], GROUPS)


def _in_group(ranks: str) -> dict[str, Any]:
    return {**AWAY, "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}}


def _written(folder: Path, third: bytes, name: str = "nccl_trace_rank_2") -> str:
    for rank in range(2):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(WAITS, protocol=2))
    (folder / name).write_bytes(third)
    return str(folder)


def _run(folder: str, *more: str) -> str:
    done = CliRunner().invoke(app, ["flight", folder, *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    "third",
    [
        _in_group("[0, 1, 2, 999999999]"),
        _in_group(f"[0, 1, 2, {'9' * 5000}]"),
        _with(input_sizes=[[10**300] * 3000]),
        _with(input_sizes=[[1] * 5000]),
        _with(time_created_ns=10**40),
        _with(collective_seq_id="9" * 5000),
        _with(process_group=7),
        {**AWAY, "entries": {"a": 1}},
        {**AWAY, "pg_config": [1]},
        b'{"version": ' + b"[" * 100_000,
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"\x80\x02\x8d" + b"\xff" * 8 + b"x.",
        b"hello\n",
        b"\x80" + bytes(range(256)) * 40,
    ],
    ids=range(14),
)
def test_a_dump_that_no_recorder_writes_is_refused_and_the_others_tell(tmp_path: Path, third: Any) -> None:
    content = third if isinstance(third, bytes) else pickle.dumps(third, protocol=2)
    told = json.loads(_run(_written(tmp_path, content), "--json"))
    assert (told["reason"], told["culprits"], told["ranks"], told["world"]) == ("did-not-dump", [2], 2, 3)
    assert "nccl_trace_rank_2 cannot be read" in told["missing"][0]["what"]


@pytest.mark.parametrize("name", [f"nccl:{'x' * 1_000_000}", "nccl:\ud800", "nccl:\x1b]52;c;aGk=\x07"])
def test_names_in_dumps_can_be_shown(tmp_path: Path, name: str) -> None:
    folder = _written(tmp_path, pickle.dumps(_with(profiling_name=name), protocol=2))
    shown = _run(folder)
    assert shown.startswith("mismatched-collective: rank 2")
    assert len(shown) < 5_000
    assert shown.replace("\n", "").isprintable()
    assert json.loads(_run(folder, "--json"))["culprits"] == [2]


@pytest.mark.parametrize("name", ["trace_20261103100000", "nccl_trace_rank_" + "9" * 100])
def test_a_long_number_at_the_end_of_a_name_is_no_rank(tmp_path: Path, name: str) -> None:
    told = json.loads(_run(_written(tmp_path, pickle.dumps(AWAY, protocol=2), name), "--json"))
    assert told["world"] == 3
    assert f"whose dump {name} is" in told["missing"][0]["what"]


def test_stacks_of_a_rank_that_nobody_can_be_are_passed_over(tmp_path: Path) -> None:
    stack = f'Thread 0x1 (most recent call first):\n  File "/x.py", line {"9" * 6000} in f\n'
    assert '"world": 3' in _run(_written(tmp_path, stack.encode(), f"stacks-rank{'9' * 20}.txt"), "--json")
    assert '"world": 3' in _run(_written(tmp_path, stack.encode(), "stacks-rank2.txt"), "--json")


def test_a_dump_that_unpacks_to_more_than_is_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.cli.dump_files.MAX_BYTES", 1 << 20)
    packed = gzip.compress(b"\x80" + bytes(3 << 20))
    told = json.loads(_run(_written(tmp_path, packed, "nccl_trace_rank_2.gz"), "--json"))
    assert (told["culprits"], told["ranks"]) == ([2], 2)
    assert any("is more than" in one["what"] for one in told["missing"])


def test_json_with_a_mark_of_its_encoding_is_json(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(AWAY).encode()
    assert json.loads(_run(_written(tmp_path, content), "--json"))["reason"] == "never-entered"


def test_a_dump_that_holds_nothing_does_not_tell_that_its_rank_did_nothing(tmp_path: Path) -> None:
    """What the others ended it was in: its recorder is off, or it dumped before."""
    told = json.loads(_run(_written(tmp_path, pickle.dumps(dump([], GROUPS), protocol=2)), "--json"))
    assert (told["reason"], told["culprits"]) == ("did-not-dump", [2])
    assert told["confidence"] < 0.8
    assert any("nothing is in the dump of rank 2" in one["what"] for one in told["missing"])


def test_dumps_of_versions_that_list_their_groups_go_with_those_that_do_not(
    tmp_path: Path,
) -> None:
    old = {"version": "2.1", "entries": WAITS["entries"][:1]}
    told = json.loads(_run(_written(tmp_path, pickle.dumps(old, protocol=2)), "--json"))
    assert (told["reason"], told["culprits"]) == ("never-entered", [2])
    assert any("different versions: 2.1, 2.10" in one["what"] for one in told["missing"])


def test_what_cannot_be_read_in_a_folder_is_missing(tmp_path: Path) -> None:
    (tmp_path / "gone_rank_3").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe_rank_4")
    told = json.loads(_run(_written(tmp_path, pickle.dumps(AWAY, protocol=2)), "--json"))
    assert told["culprits"] == [2]
    assert [one["what"] for one in told["missing"]] == ["gone_rank_3: No such file or directory"]
