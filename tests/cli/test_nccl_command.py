"""`trilens nccl`: files as they lie about, and what it prints."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trilens.cli.main import app
from trilens.diagnose.bundle import write_bundle
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.model.errors import BundleError, ConfigError, IntakeError

OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CLOSED = "n1:7:9 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<41109>"
NAMES = {"class", "layer", "rank", "host", "line", "fix", "confidence", "missing"}


def _run(*arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, ["nccl", *arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_object_has_all_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(f"{CLOSED}\n")
    (tmp_path / "rank1.log").write_bytes(f"step 1\r\n{OOM}\r\n".encode())
    told = json.loads(_run(str(tmp_path), "--json"))
    assert told.keys() >= NAMES
    assert (told["class"], told["layer"], told["rank"]) == ("gpu-out-of-memory", "program", 1)
    assert (told["line"], told["file"], told["line_number"]) == (OOM, "rank1.log", 2)
    assert told["confidence"] > 0.9
    assert [one["class"] for one in told["order"]] == ["peer-closed", "gpu-out-of-memory"]


def test_the_text_says_the_cause_first_and_then_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"{CLOSED}\n{OOM}\n")
    shown = _run(str(log)).splitlines()
    assert shown[0] == "gpu-out-of-memory (program, 96% sure)"
    assert shown[1].strip() == "Rank 1 ran out of GPU memory."
    assert shown[2].endswith("job.log:2")
    assert shown[3] == f"    line: {OOM}"
    assert shown[4].startswith("    do:   1. ")
    assert any(line.startswith("    then: peer-closed") for line in shown)
    assert "In this order:" in shown


def test_what_is_a_guess_is_not_told_as_the_cause(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"{CLOSED}\n")
    assert _run(str(log)).startswith("cannot tell; perhaps rank-left (program, 45% sure)")
    log.write_text("step 1\n")
    assert _run(str(log)).startswith("cannot tell\n")


def test_compressed_logs_and_stdin_are_read(tmp_path: Path) -> None:
    packed = tmp_path / "rank1.log.gz"
    packed.write_bytes(gzip.compress(f"{OOM}\n".encode()))
    assert json.loads(_run(str(packed), "--json"))["rank"] == 1
    assert json.loads(_run("-", "--json", stdin=f"{OOM}\n"))["rank"] == 1


def test_of_a_compressed_log_that_is_cut_what_is_there_is_read(tmp_path: Path) -> None:
    packed = tmp_path / "rank1.log.gz"
    packed.write_bytes(gzip.compress(f"{OOM}\n{'x' * 100}\n".encode())[:-8])
    told = json.loads(_run(str(packed), "--json"))
    assert told["class"] == "gpu-out-of-memory"
    assert any("cut off" in one["what"] for one in told["missing"])


@pytest.mark.parametrize(
    "content",
    [
        bytes(6_000) + f"{OOM}\n".encode(),
        f"step 1\n{OOM}\n".encode() + bytes(6_000),
        f"{OOM}\r\n".encode("utf-16"),
        f"m\xfcll {OOM}\n".encode("latin-1"),
        b"y" * 3_000_000 + f"\n{OOM}".encode(),
        b"99%|###|\r" * 200_000 + OOM.encode(),
    ],
    ids=["rotated", "full-disk", "utf-16", "latin-1", "long-line", "progress"],
)
def test_text_with_something_else_in_it_is_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank1.log").write_bytes(content)
    told = json.loads(_run(str(tmp_path), "--json"))
    assert (told["class"], told["rank"]) == ("gpu-out-of-memory", 1)


def test_what_cannot_be_read_in_a_folder_is_missing(tmp_path: Path) -> None:
    (tmp_path / "rank1.log").write_text(f"{OOM}\n")
    (tmp_path / "rank2.log").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank0\xff.log")).write_text("step 1\n")
    told = json.loads(_run(str(tmp_path), "--json"))
    assert (told["rank"], told["lines"]) == (1, 2)
    assert told["missing"][-1]["what"] == "rank2.log: No such file or directory"
    assert _run(str(tmp_path)).startswith("gpu-out-of-memory")


def test_where_no_log_can_be_read_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "rank2.log").symlink_to("nowhere")
    assert "No log could be read." in _run(str(tmp_path))


def test_in_a_folder_what_is_no_log_is_passed_over_and_told(tmp_path: Path) -> None:
    (tmp_path / "attempt_0" / "1").mkdir(parents=True)
    (tmp_path / "attempt_0" / "1" / "stderr.log").write_text(f"{OOM.removeprefix('[rank1]: ')}\n")
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x04\x95\0\0\0\0")
    told = json.loads(_run(str(tmp_path), "--json"))
    assert (told["class"], told["rank"]) == ("gpu-out-of-memory", 1)
    assert any("nccl_trace_rank_0" in one["what"] for one in told["missing"])


def test_a_bundle_gives_the_same_verdict(tmp_path: Path) -> None:
    (tmp_path / "main").write_text(f"{CLOSED}\n{OOM}\n")
    bundle = tmp_path / "case.zip"
    case = CaseFile(
        CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train"),
        0,
        1,
        logs=(LogText(LogKind.FILE, str(tmp_path / "main"), (CLOSED, OOM)),),
    )
    write_bundle(case, bundle)
    assert _run("--bundle", str(bundle), "--json") == _run(str(tmp_path / "main"), "--json")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], ConfigError),
        (["gone.log"], ConfigError),
        (["EMPTY"], ConfigError),
        (["BINARY"], IntakeError),
        (["--bundle", "BINARY"], BundleError),
        (["BINARY", "--bundle", "BINARY"], ConfigError),
    ],
)
def test_what_cannot_be_read_is_an_error_of_the_input(
    tmp_path: Path, arguments: list[str], error: type[Exception]
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "BINARY").write_bytes(b"\x7fELF\0\0\0")
    named = [str(tmp_path / one) if one.isupper() else one for one in arguments]
    with pytest.raises(error) as raised:
        CliRunner().invoke(app, ["nccl", *named], catch_exceptions=False)
    assert raised.value.exit_code == 2  # type: ignore[attr-defined]


def test_it_needs_nothing_of_the_server(tmp_path: Path) -> None:
    """`pip install trilens` is enough, also on a laptop without the cluster."""
    program = (
        "import sys\n"
        "for name in ('numpy', 'msgspec', 'aiohttp', 'chdb', 'pyarrow', 'starlette', 'orjson'):\n"
        "    sys.modules[name] = None\n"
        "from trilens.cli.main import main\n"
        "main()\n"
    )
    log = tmp_path / "x.log"
    log.write_text(f"{OOM}\n")
    done = subprocess.run(
        [sys.executable, "-c", program, "nccl", str(log), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["class"] == "gpu-out-of-memory"
