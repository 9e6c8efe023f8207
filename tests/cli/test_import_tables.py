"""`trilens import jobs|usage`: what a table says, and what is wrong with it, before anything is sent."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from command_here import trilens_here
from trilens.cli.import_values import Clock, Gpus, read_gpus

if TYPE_CHECKING:
    from command_here import Answer

EXAMPLE = Path(__file__).parents[2] / "examples" / "sacct.txt"
JOBS = "job,start,end,gpus\n"
CSV_MAP = "job=job,start=start,end=end,gpus=gpus"
USAGE_MAP = "time=t,in_use=used,there=all"


def imported(kind: str, file: Path, *options: str) -> Answer:
    return trilens_here("import", kind, str(file), "--dry-run", *options)


def told(kind: str, file: Path, *options: str) -> dict[str, Any]:
    answer = imported(kind, file, "--json", *options)
    assert answer.returncode == 0, answer.stderr
    read: dict[str, Any] = json.loads(answer.stdout)
    return read


def table(folder: Path, text: str) -> Path:
    file = folder / "table.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_sacct_is_known_by_its_columns() -> None:
    """Steps are in their job, pending and CPU jobs take no GPU; what still runs counts to the last time."""
    assert told("jobs", EXAMPLE) == {
        "rows": 10,
        "jobs": 4,
        "left_out": {"job steps": 3, "never started": 2, "without GPUs": 1},
        "bad": 0,
        "without_end": 1,
        "gpu_hours": 8 * 24 + 2.5 + 0.5 + 4 * 2,
        "start": 1_790_841_600.0,
        "end": 1_790_928_000.0,
        "source": "sacct",
        "cluster": "imported",
        "sent": False,
    }


def test_what_people_read() -> None:
    answer = imported("jobs", EXAMPLE)
    assert answer.stdout.splitlines() == [
        "sacct: 4 jobs of 10 rows, 203.0 GPU-hours, 2026-10-01T08:00:00Z to 2026-10-02T08:00:00Z",
        "not counted: 3 job steps, 2 never started, 1 without GPUs",
        "17 times tell no zone and were read as UTC (see --timezone)",
        "nothing was sent (--dry-run)",
    ]
    assert answer.stderr == "warning: 1 had no end, and count to the table's last time (or --until)\n"


def test_until_and_timezone() -> None:
    """A table of Tokyo, written at noon there."""
    read = told("jobs", EXAMPLE, "--timezone", "Asia/Tokyo", "--until", "2026-10-02T12:00:00+09:00")
    assert read["start"] == 1_790_841_600.0 - 9 * 3600
    assert read["gpu_hours"] == 8 * 24 + 2.5 + 0.5 + 4 * 6
    answer = imported("jobs", EXAMPLE, "--timezone", "Mars/Olympus")
    assert (answer.returncode, "there is no timezone 'Mars/Olympus'" in answer.stderr) == (2, True)


def test_a_table_of_ones_own_with_a_map_and_fractions(tmp_path: Path) -> None:
    rows = [
        "began;ended;share;who",
        "2026-01-01 00:00:00;2026-01-01 07:00:00;1/7;ada",
        "1767225600;1767232800.5;0.5;ada",
        "2026-01-01T00:00:00Z;2026-01-01T01:00:00+00:00;2;",
        "2026-01-01T00:00:00Z;2026-01-01T01:00:00+00:00;2;",
    ]
    file = table(tmp_path, "\n".join(rows))
    read = told("jobs", file, "--map", "start=began,end=ended", "--map", "gpus=share,user=who")
    assert (read["jobs"], read["bad"]) == (4, 0)
    assert read["gpu_hours"] == pytest.approx(1 + 1 + 0.5 / 7200 + 4)


def test_bad_rows_are_named_by_line_and_nothing_is_sent(tmp_path: Path) -> None:
    rows = [
        "1,2026-01-01T00:00:00,2026-01-01T01:00:00,1",
        "2,yesterday,2026-01-01T01:00:00,1",
        "3,2026-01-01T02:00:00,2026-01-01T01:00:00,1",
        "4,2026-01-01T00:00:00,2026-01-01T01:00:00,-1",
        "5,2026-01-01T00:00:00,2026-01-01T01:00:00,",
        "6,2026-01-01T00:00:00",
        '"7,\nseven",2126-01-01T00:00:00,2126-01-01T01:00:00,1',
        "1,2026-01-01T00:00:00,2026-01-01T03:00:00,1",
        "9,12,13,1",
        "10,2026-01-01T00:00:00,2026-01-01T01:00:00,99999999999",
    ]
    file = table(tmp_path, JOBS + "\n".join(rows))
    answer = trilens_here("import", "jobs", str(file), "--map", CSV_MAP, "--server", "http://127.0.0.1:1")
    assert answer.returncode == 2
    assert [
        line.removeprefix("trilens: ").removeprefix(f"{file}:") for line in answer.stderr.splitlines()
    ] == [
        "3: cannot read the time 'yesterday': write 2026-01-31T12:00:00, with a zone or without, or seconds "
        "since 1970",
        "4: the job ends before it starts",
        "5: '-1' is not a number of GPUs: write 8, 0.5 or 1/7",
        "6: the job ran, and its GPUs are not told",
        "7: 2 columns where the header has 4",
        "8: the job is in the future",
        "10: job 1 with this start is in line 2 already",
        "11: cannot read the time '12': write 2026-01-31T12:00:00, with a zone or without, or seconds "
        "since 1970",
        "12: 99999999999 GPUs are more than anyone has",
        " 9 rows cannot be read, and nothing was sent (mend them, or leave them out with --skip-bad)",
    ]
    left = told("jobs", file, "--map", CSV_MAP, "--skip-bad")
    assert (left["jobs"], left["bad"], left["gpu_hours"]) == (1, 9, 1.0)


def test_sacct_does_not_quote(tmp_path: Path) -> None:
    """A name that begins with a quote is a name."""
    text = (
        "JobID|JobName|Start|End|AllocTRES\n"
        '7|"odd|2026-01-01T00:00:00|2026-01-01T01:00:00|gres/gpu=2\n'
        "8|even|2026-01-01T02:00:00|2026-01-01T03:00:00|gres/gpu=2\n"
    )
    assert told("jobs", table(tmp_path, text))["gpu_hours"] == 4.0


def test_packed_tables_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "jobs.txt.gz"
    packed.write_bytes(gzip.compress(EXAMPLE.read_bytes()))
    read = told("jobs", packed)
    assert (read["jobs"], read["source"]) == (4, "jobs")
    with packed.open("rb") as stdin:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stdin}))
        assert told("jobs", Path("-"), "--source", "s")["jobs"] == 4
    unnamed = trilens_here("import", "jobs", "-")
    assert "a table from stdin has no name" in unnamed.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--map", "begin=start"], "unknown field 'begin' (fields are job, submit, start"),
        (["--map", "start=begin"], "has no column 'begin' for `start` (it has job, start, end, gpus)"),
        (["--map", "start=strat"], "did you mean 'start'?"),
        (["--map", "start"], "'start' is not FIELD=COLUMN"),
        (["--map", "start=start"], "no column is named for end, gpus"),
        (["--map", CSV_MAP, "--source", "a/b"], "'a/b' is no name for a source"),
        (["--map", CSV_MAP, "--until", "soon"], "cannot read the time 'soon'"),
    ],
)
def test_bad_commands(tmp_path: Path, options: list[str], says: str) -> None:
    answer = imported("jobs", table(tmp_path, JOBS), *options)
    assert answer.returncode == 2
    assert says in answer.stderr


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    assert "cannot read" in imported("jobs", tmp_path / "none").stderr
    assert "not a header" in imported("jobs", table(tmp_path, "hello\n")).stderr
    assert "not a header" in imported("jobs", table(tmp_path, "")).stderr


@pytest.mark.parametrize(
    ("text", "model", "gpus"),
    [
        ("billing=8,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=1G", "", Gpus(Fraction(8), "a100")),
        ("gres/gpu:a100=2,gres/gpu:v100=2,gres/gpu=4", "", Gpus(Fraction(4))),
        ("gres/gpu=4,gres/gpumem=80G,gres/gpuutil=90,gres/shard=3", "", Gpus(Fraction(4))),
        ("gres/gpu:h100=2", "", Gpus(Fraction(2), "h100")),
        ("gpu:a100:4", "", Gpus(Fraction(4), "a100")),
        ("gpu:2", "", Gpus(Fraction(2))),
        ("cpu=4,mem=8G", "", Gpus(Fraction(0))),
        ("gres/gpu:1g.10gb=2,gres/gpu=2", "NVIDIA H100", Gpus(Fraction(2, 7))),
        ("0.25", "", Gpus(Fraction(1, 4))),
        ("Unknown", "", None),
    ],
)
def test_how_gpus_are_written(text: str, model: str, gpus: Gpus | None) -> None:
    assert read_gpus(text, model) == gpus


def test_a_part_of_an_unknown_gpu_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="--gpu-model"):
        read_gpus("gres/gpu:1g.10gb=2")


def test_clocks_that_are_set_back() -> None:
    clock = Clock(ZoneInfo("Europe/Berlin"))
    assert clock.read("2026-10-25T02:30:00") == 1_792_888_200_000  # still in summer
    assert clock.read("2026-10-25T03:30:00") == 1_792_895_400_000
    assert (clock.twice, clock.without_zone) == (1, 2)


def test_each_row_of_usage_lasts_until_the_next(tmp_path: Path) -> None:
    """Out of order, with a number missing, one in the middle of a gap, and more in use than there."""
    file = table(
        tmp_path,
        "t,used,all\n"
        "2026-01-01T00:10:00Z,2,4\n"
        "2026-01-01T00:00:00Z,1,4\n"
        "2026-01-01T00:20:00Z,NaN,4\n"
        "2026-01-01T00:30:00Z,5,4\n"
        "2026-01-01T05:00:00Z,1,\n",
    )
    answer = imported("usage", file, "--map", USAGE_MAP)
    assert answer.stdout.splitlines() == [
        "table: 4 rows, 1.5 GPU-hours in use, 61.5% of what was there, "
        "2026-01-01T00:00:00Z to 2026-01-01T05:10:00Z",
        "not counted: 0 bad, 1 without a number",
        "nothing was sent (--dry-run)",
    ]
    assert answer.stderr.splitlines() == [
        "warning: 1 gap of 4.3 h together: of these times nothing is known",
        "warning: 1 rows have more GPUs in use than there: those in use count",
    ]


def test_bad_rows_of_usage(tmp_path: Path) -> None:
    file = table(
        tmp_path,
        "t,used,all\n"
        "2026-01-01T00:00:00Z,1,4\n"
        "2026-01-01T01:00:00Z,-3,4\n"
        "2026-01-01T02:00:00Z,1,four\n"
        "2026-01-01T02:00:00Z,1,4\n"
        ",1,4\n"
        "2026-01-01T03:00:00Z,1,4\n",
    )
    answer = imported("usage", file, "--map", USAGE_MAP)
    assert answer.returncode == 2
    assert [line.rpartition(": ")[2] for line in answer.stderr.splitlines()[:4]] == [
        "write 8, 0.5 or 1/7",
        "write 8, 0.5 or 1/7",
        "line 4 has the same time",
        "the row has no time",
    ]
    left = told("usage", file, "--map", USAGE_MAP, "--skip-bad")
    assert (left["bad"], left["gpu_hours"]) == (4, 2.0)  # what is bad is not filled up from the row before it
    alone = imported("usage", table(tmp_path, "t,used,all\n2026-01-01T00:00:00Z,1,4\n"), "--map", USAGE_MAP)
    assert "says nothing of how long it lasted" in alone.stderr
