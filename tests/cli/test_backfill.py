"""`trilens backfill`: samples of the past in, answers out."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import cramjam
import httpx
import pytest

from command_here import trilens_here
from memory_api import Api, running
from servers import require_server
from trilens.cli.backfill_files import load_files
from trilens.cli.pieces import Piece, pieces
from trilens.cli.progress import hours_progress, progress
from trilens.collect.backfill import Taken
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.errors import IntakeError
from trilens.model.labels import make_labels
from trilens_process import TRILENS, clean_environment, server, trilens

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parents[2] / "docs"
DAY = 86_400
NOW = int(time.time()) // 60 * 60


def history(file: Path, days: range, *, name: str = "power") -> str:
    """A sample a minute for an hour, at the same time of each of some days ago."""
    lines = [f"# HELP {name} Watts.", f"# TYPE {name} gauge"]
    for day in days:
        begin = NOW - day * DAY
        lines += [f'{name}{{gpu="0"}} {day}.5 {begin + 60 * i}' for i in range(60)]
    file.write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    return str(file)


def count(url: str, expression: str, at: int = NOW) -> str:
    """The only value of an instant query."""
    answer = httpx.get(f"{url}/api/v1/query", params={"query": expression, "time": at}).json()
    result = answer["data"]["result"]
    return str(result[0]["value"][1]) if result else "none"


def test_into_a_running_server_past_its_fresh_samples(tmp_path: Path) -> None:
    file = history(tmp_path / "history.om", range(1, 4))
    with server(tmp_path) as (url, _):
        fresh = encode([(make_labels({"__name__": "power", "gpu": "0"}), NOW * 1000, 7.0)])
        assert httpx.post(f"{url}/api/v1/write", content=fresh, headers=HEADERS).status_code == 204
        for _ in range(2):  # the second time changes nothing
            said = trilens("backfill", file, "--server", url, "--json")
            assert said.returncode == 0, said.stderr
            assert json.loads(said.stdout)["samples"] == 180
            assert count(url, "count_over_time(power[4d])") == "181"
        assert count(url, "power", NOW - 2 * DAY + 600) == "2.5"
        assert count(url, "power") == "7"
        described = httpx.get(f"{url}/api/v1/metadata?metric=power").json()["data"]
        assert described == {"power": [{"type": "gauge", "help": "Watts.", "unit": ""}]}

        old = history(tmp_path / "old.om", range(13, 17, 3))
        said = trilens("backfill", old, "--server", url)
        assert re.fullmatch(r".*old.om: 60 samples, .* to .*Z; 60 left out, older than .*\n", said.stdout)
        assert count(url, "count_over_time(power[20d])") == "241"

        later = encode([(make_labels({"__name__": "power", "gpu": "0"}), NOW * 1000 + 1, 8.0)])
        assert httpx.post(f"{url}/api/v1/write", content=later, headers=HEADERS).status_code == 204


def test_into_a_new_directory_and_again_from_stdin(tmp_path: Path) -> None:
    file = history(tmp_path / "history.om", range(40, 42))
    data = str(tmp_path / "data")
    said = trilens("backfill", file, "--data", data)
    start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW - 41 * DAY))
    assert said.stdout.startswith(f"{file}: 120 samples, {start} to "), said.stderr
    with Path(file).open("rb") as stdin:
        again = subprocess.run(
            [*TRILENS, "backfill", "-", "--data", data, "--json"],
            stdin=stdin, capture_output=True, text=True, env=clean_environment(), timeout=60, check=True,
        )  # fmt: skip
    assert json.loads(again.stdout)["files"][0] == {
        "file": "-",
        "samples": 120,
        "expired": 0,
        "start": NOW - 41 * DAY,
        "end": NOW - 40 * DAY + 59 * 60,
    }
    # Asked twice: a look at a directory must not set its retention to the default and lose what is older.
    for _ in range(2):
        asked = trilens("query", "count_over_time(power[50d])", "--data", data)
        assert asked.stdout == '{gpu="0"} 120\n', asked.stderr


def test_promtool_reads_what_we_read(tmp_path: Path) -> None:
    text = (DOCS / "backfill.md").read_text(encoding="utf-8")
    example = re.search(r"(    # HELP .*?# EOF\n)", text, re.DOTALL)
    assert example is not None
    file = tmp_path / "example.om"
    file.write_text(example[1].replace("    ", ""), encoding="utf-8")
    command = [require_server("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(file), "blocks"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    said = trilens_here("backfill", str(file), "--data", str(tmp_path / "data"))
    assert said.stdout == f"{file}: 3 samples, 2023-11-14T22:13:20Z to 2023-11-14T22:13:35Z\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a 1 1\na 2\n# EOF\n", [], "FILE:2: the sample has no timestamp"),
        ("a 1 1\na{ 2 3\n# EOF\n", [], 'FILE:2: expected label="value"'),
        ("a 1 1\n", [], "FILE: the text does not end with # EOF"),
        ("a 1 1\na 2\n", ["--format", "prometheus"], "FILE:2: the sample has no timestamp"),
        ("a 1 1700000000\n# EOF\n", ["--format", "prometheus"], "FILE:1: the sample's time lies before 1973"),
        (
            "a 1 1700000000000\n# EOF\n",
            [],
            "FILE:1: the sample's time lies in the future; this format counts sec",
        ),
        (
            '{"a": 1}\n',
            [],
            "FILE: the text does not end with # EOF (the file was cut off, or is not OpenMetrics",
        ),
        ('{"a": 1}\n', ["--format", "prometheus"], "FILE:1: "),
        ("BZh91AY&SY", [], "FILE: this is bzip2, which is not unpacked here (gzip and zstd are)"),
        ("a 1 1\n# EOF\n", ["--server", "http://127.0.0.1:1"], "give one of them"),
    ],
)
def test_mistakes_are_one_line_that_says_where(
    tmp_path: Path, text: str, options: list[str], message: str
) -> None:
    file = tmp_path / "bad.om"
    file.write_text(text, encoding="utf-8")
    said = trilens_here("backfill", str(file), "--data", str(tmp_path / "data"), *options)
    assert (said.returncode, said.stdout) == (2, "")
    assert message.replace("FILE", str(file)) in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_nothing_is_touched_when_a_file_or_the_directory_is_wrong(tmp_path: Path) -> None:
    file = history(tmp_path / "history.om", range(1, 2))
    said = trilens_here("backfill", file, str(tmp_path / "missing.om"), "--data", str(tmp_path / "data"))
    assert said.returncode == 2
    assert "cannot read" in said.stderr
    assert "missing.om: No such file or directory" in said.stderr
    assert said.stdout == ""
    said = trilens_here("backfill", file, "--data", str(DOCS))
    assert (said.returncode, "docs holds other things" in said.stderr) == (2, True)
    gone = trilens_here("backfill", file, "--server", "http://127.0.0.1:1")
    assert gone.returncode == 1
    assert "no answer from http://127.0.0.1:1" in gone.stderr


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data[:90]) + gzip.compress(data[90:])  # as `cat a.gz b.gz` makes them


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data[:90])) + bytes(cramjam.zstd.compress(data[90:]))


@pytest.mark.parametrize("pack", [gzipped, zstd])
def test_compressed_files_are_read_as_they_are(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    plain = Path(history(tmp_path / "plain.om", range(1, 3))).read_bytes()
    packed = tmp_path / "packed"  # the name says nothing
    packed.write_bytes(pack(plain))
    data = str(tmp_path / "data")
    said = trilens_here("backfill", str(packed), "--data", data)
    assert said.stdout.startswith(f"{packed}: 120 samples"), said.stderr
    with packed.open("rb") as stdin:
        command = [*TRILENS, "backfill", "-", "--data", data]
        piped = subprocess.run(
            command,
            stdin=stdin,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=60,
            check=True,
        )
    assert piped.stdout.startswith("stdin: 120 samples")
    packed.write_bytes(pack(plain)[:-20])
    cut = trilens_here("backfill", str(packed), "--data", data)
    assert cut.returncode == 2
    assert f"{packed}: the compressed data is damaged or cut off" in cut.stderr
    packed.write_bytes(pack(plain.removesuffix(b"# EOF\n")))
    unfinished = trilens_here("backfill", str(packed), "--data", data)
    assert unfinished.returncode == 2
    assert "does not end with # EOF" in unfinished.stderr


def test_writing_nothing_is_told_and_not_a_success(tmp_path: Path) -> None:
    with server(tmp_path) as (url, _):
        old = history(tmp_path / "old.om", range(40, 42))
        said = trilens_here("backfill", old, "--server", url, "--json")
        assert said.returncode == 1
        assert json.loads(said.stdout)["files"][0]["expired"] == 120
        assert said.stderr == (
            "trilens: nothing was written: all 120 samples are older than the server keeps "
            "(raise storage.retention first)\n"
        )
    empty = tmp_path / "empty.om"
    empty.write_text("# EOF\n", encoding="utf-8")
    said = trilens_here("backfill", str(empty), "--data", str(tmp_path / "other"))
    assert (said.returncode, said.stdout) == (1, f"{empty}: 0 samples\n")
    assert said.stderr == f"trilens: nothing was written: no samples in {empty}\n"


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr("trilens.cli.progress.time.monotonic", lambda: clock[0])
    with progress("history.om", 200) as advance:
        for second in range(25):
            clock[0] = float(second)
            advance(second * 10, second * 1000)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "history.om: 10,000 samples so far, 50% of the file\n"
        "history.om: 20,000 samples so far, 100% of the file\n"
    )
    with hours_progress("checked", 1_200) as passed:
        for _ in range(12):
            clock[0] += 1
            passed(100)
    assert capsys.readouterr().err == "1,000 of 1,200 hours checked\n"


def test_a_server_without_samples_of_its_own_refuses(tmp_path: Path) -> None:
    file = history(tmp_path / "history.om", range(1, 2))
    with running(Api().build()) as url:
        said = trilens_here("backfill", file, "--server", url)
    assert said.returncode == 2
    assert "this server keeps no samples" in said.stderr


def test_pieces_are_whole_lines_with_their_family() -> None:
    text = b"# TYPE a gauge\na 1 1\na 2 2\n# TYPE b gauge\nb 3 3\nb 4 4\n# EOF"
    for size in range(16, len(text) + 1):
        read = list(pieces(io.BytesIO(text), size))
        lines = []
        for piece in read:
            own = piece.text.split(b"\n")
            if own and not own[-1]:
                own.pop()
            lines += [(piece.first_line + i, line) for i, line in enumerate(own)]
            family = None
            for line in own:  # every sample stands behind the type of its own family
                if line.startswith(b"# TYPE"):
                    family = line.split()[2]
                elif not line.startswith(b"#"):
                    assert line[:1] == family
        samples = {(n, line) for n, line in lines if not line.startswith(b"# TYPE")}
        assert samples == {(2, b"a 1 1"), (3, b"a 2 2"), (5, b"b 3 3"), (6, b"b 4 4"), (7, b"# EOF")}
        assert read[-1].end == len(text)
    with pytest.raises(IntakeError, match="line 1: the line does not end"):
        list(pieces(io.BytesIO(b"x" * 100), 16))


def test_a_mistake_in_a_later_piece_says_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.cli.backfill_files.pieces", lambda stream: pieces(stream, 16))
    taken: list[Piece] = []

    def take(piece: Piece) -> Taken:
        if len(taken) == 2:
            raise IntakeError("line 9: oh")
        taken.append(piece)
        return Taken(2, 0, 1, 2)

    file = tmp_path / "history.om"
    file.write_bytes(b"a 1 1\na 2 2\na 3 3\na 4 4\na 5 5\na 6 6\n# EOF\n")
    with pytest.raises(IntakeError) as stopped:
        list(load_files([str(file)], take, openmetrics=True))
    assert str(stopped.value) == (
        f"{file}:9: oh (4 samples before it were written; running it again is harmless)"
    )


def test_a_stream_that_was_cut_off_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"a 1 1\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    with pytest.raises(IntakeError, match=r"stdin: the text does not end with # EOF .*1 samples before"):
        list(load_files(["-"], lambda piece: Taken(1, 0, 1, 1), openmetrics=True))
