"""`trilens flight` on folders of dumps, good and bad."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from flight_dumps import dump, op
from trilens.cli.main import app
from trilens.diagnose.bundle import write_bundle
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.model.errors import BundleError, ConfigError, TrilensError
from trilens.model.run import ArtifactRecord, RunId

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = {"0": range(3)}
WAITS = dump([op("all_reduce", 1), op("all_reduce", 2, "started")], GROUPS)
AWAY = dump([op("all_reduce", 1)], GROUPS)
STACK = 'Thread 0x1 (most recent call first):\n  File "/train/data.py", line 7 in read\n'


def _told(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["flight", *arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _write(folder: Path, **named: Any) -> None:
    for name, told in named.items():
        (folder / name).write_bytes(told if isinstance(told, bytes) else pickle.dumps(told, protocol=2))


def test_a_folder_of_dumps_names_the_culprit(tmp_path: Path) -> None:
    _write(tmp_path, nccl_trace_rank_0=WAITS, nccl_trace_rank_1=WAITS, nccl_trace_rank_2=AWAY)
    told = _told(str(tmp_path))
    assert told["culprits"] == [2]
    assert (told["collective"], told["sequence"], told["group"]) == ("all_reduce", 2, "0:default_pg")
    assert (told["reason"], told["missing"]) == ("never-entered", [])
    assert told["confidence"] >= 0.9


def test_the_same_to_be_read(tmp_path: Path) -> None:
    _write(tmp_path, nccl_trace_rank_0=WAITS, nccl_trace_rank_1=WAITS, nccl_trace_rank_2=AWAY)
    (tmp_path / "stacks-rank2.txt").write_text(STACK)
    (tmp_path / "train.log").write_text("step 1\n")
    shown = CliRunner().invoke(app, ["flight", str(tmp_path)], catch_exceptions=False).stdout
    assert shown.splitlines() == [
        "never-entered: rank 2 (95% sure)",
        "          Rank 2 never entered all_reduce 2 of group default_pg, in which ranks 0, 1 wait.",
        "    when: since 2026-11-03 10:00:02 UTC",
        "    seen: rank 2 is at /train/data.py:7 in read (its stacks)",
        "    seen: rank 2 last called all_reduce 1 of group default_pg at /train/loop.py:41 in step, which "
        "ended (its dump)",
        "    seen: rank 0 waits at /train/loop.py:42 in step (its dump)",
        "    do:   1. Look at what rank 2 does instead: stacks (py-spy dump --pid, or the artifact `stacks` "
        "of the SDK), the end of the log, the GPU and the data.",
        "          2. Where a loop was left early or a branch skipped, let it take part; where a process is "
        "gone, its log says why.",
        "3 of 3 ranks dumped",
    ]


def test_names_and_forms_of_all_kinds_are_known(tmp_path: Path) -> None:
    """With the host in it (pytorch 140879), newer names, JSON, compressed, and one by one."""
    (tmp_path / "nccl_trace_rank_container-node02_0").write_bytes(pickle.dumps(WAITS, protocol=2))
    (tmp_path / "comm_lib_trace_rank_1.json").write_text(json.dumps(WAITS))
    (tmp_path / "trace_rank_2.gz").write_bytes(gzip.compress(pickle.dumps(AWAY, protocol=2)))
    assert _told(str(tmp_path))["culprits"] == [2]
    assert _told(*(str(one) for one in sorted(tmp_path.iterdir())))["culprits"] == [2]


class _Runs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize(
    ("content", "said"),
    [("hostile", "more than plain data"), ("cut", "damaged pickle"), ("empty", "no bytes")],
    ids=["hostile", "cut", "empty"],
)
def test_a_dump_that_is_bad_is_missing_and_the_others_tell(tmp_path: Path, content: str, said: str) -> None:
    folder, ran = tmp_path / "dumps", tmp_path / "ran"
    folder.mkdir()
    whole = pickle.dumps(AWAY, protocol=2)
    bad = {"hostile": pickle.dumps({"version": _Runs(ran)}), "cut": whole[: len(whole) // 2], "empty": b""}
    _write(folder, nccl_trace_rank_0=WAITS, nccl_trace_rank_1=WAITS, nccl_trace_rank_2=bad[content])
    told = _told(str(folder))
    assert (told["reason"], told["culprits"]) == ("did-not-dump", [2])
    assert told["confidence"] < 0.8
    assert "nccl_trace_rank_2 cannot be read" in told["missing"][0]["what"]
    assert said in told["missing"][0]["what"]
    assert not ran.exists()


def test_of_one_rank_it_cannot_tell(tmp_path: Path) -> None:
    _write(tmp_path, nccl_trace_rank_0=WAITS)
    told = _told(str(tmp_path))
    assert told["can_tell"] is False
    assert "ranks 1, 2 did not dump" in told["missing"][0]["what"]
    shown = CliRunner().invoke(app, ["flight", str(tmp_path)], catch_exceptions=False).stdout
    assert shown.startswith("cannot tell; perhaps did-not-dump")


def test_a_dump_of_nobody_is_named(tmp_path: Path) -> None:
    _write(tmp_path, nccl_trace_rank_0=WAITS, nccl_trace_rank_1=WAITS, nccl_trace_rank_2=AWAY, mine=AWAY)
    assert "whose dump mine is" in _told(str(tmp_path))["missing"][0]["what"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], ConfigError),
        (["EMPTY"], ConfigError),
        (["NOWHERE"], ConfigError),
        (["EMPTY", "--bundle", "TEXT"], ConfigError),
        (["--bundle", "TEXT"], BundleError),
    ],
    ids=["nothing", "empty", "nowhere", "both", "no-bundle"],
)
def test_what_cannot_be_read_at_all_is_bad_input(
    tmp_path: Path, arguments: list[str], error: type[TrilensError]
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "TEXT").write_text("hello")
    named = [str(tmp_path / one) if one.isupper() else one for one in arguments]
    with pytest.raises(error) as raised:
        CliRunner().invoke(app, ["flight", *named], catch_exceptions=False)
    assert raised.value.exit_code == 2


def test_a_bundle_tells_the_same(tmp_path: Path) -> None:
    artifacts = tuple(
        ArtifactRecord(RunId("r"), rank, 0, 1, 1, "flight-recorder", f"trace_rank_{rank}", pickle.dumps(told))
        for rank, told in enumerate((WAITS, WAITS, AWAY))
    )
    file = tmp_path / "case.zip"
    subject = CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train")
    write_bundle(CaseFile(subject, 0, 60_000, artifacts=artifacts), file)
    assert _told("--bundle", str(file))["culprits"] == [2]


def test_it_needs_nothing_of_the_server(tmp_path: Path) -> None:
    """`pip install trilens` is enough, also on a laptop without the cluster."""
    program = (
        "import sys\n"
        "for name in ('numpy', 'msgspec', 'aiohttp', 'chdb', 'pyarrow', 'starlette', 'orjson', 'torch'):\n"
        "    sys.modules[name] = None\n"
        "from trilens.cli.main import main\n"
        "main()\n"
    )
    _write(tmp_path, nccl_trace_rank_0=WAITS, nccl_trace_rank_1=WAITS, nccl_trace_rank_2=AWAY)
    command = [sys.executable, "-c", program, "flight", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["culprits"] == [2]
