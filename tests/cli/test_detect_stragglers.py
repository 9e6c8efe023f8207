"""`trilens detect stragglers`: tables from anywhere, and what is wrong with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_here import trilens_here
from servers import require_corpus

if TYPE_CHECKING:
    from pathlib import Path

STEPS = range(100)


def _table(folder: Path, header: str, row, *, workers: int = 4) -> str:
    """`row(worker, step, seconds)`; worker 2 is slow in steps 60 to 79."""
    random = np.random.default_rng(1)
    lines = [header]
    for step in STEPS:
        for worker in range(workers):
            slow = 1.5 if worker == 2 and 60 <= step < 80 else 1.0
            lines.append(row(worker, step, slow * (1 + 0.1 * worker) * (1 + 0.02 * random.standard_normal())))
    file = folder / "steps.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def _listed(*arguments: str) -> list[dict[str, object]]:
    answer = trilens_here("detect", "stragglers", *arguments, "--json")
    assert answer.returncode == 0, answer.stderr
    read: list[dict[str, object]] = json.loads(answer.stdout)
    return read


@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        ("worker,step,step_time", lambda w, n, s: f"{w},{n},{s}", ()),
        ("Rank;Iteration;Duration (ms)", lambda w, n, s: f"{w};{n};{1000 * s}", ()),
        ("host\ttimestamp\telapsed_s", lambda w, n, s: f"{w}\t{n}\t{s}", ()),
        ("a,b,c", lambda w, n, s: f"{w},{n},{s}", ("--worker", "a", "--step", "b", "--duration", "c")),
        ("time,step,rank,batch_time", lambda w, n, s: f"{1e9 + 7 * n},{n},{w},{s}", ()),
    ],
    ids=["plain", "semicolons", "tabs", "named", "both"],
)
def test_columns_are_found(tmp_path: Path, header: str, row, options: tuple[str, ...]) -> None:
    (found,) = _listed(_table(tmp_path, header, row), *options)
    assert found["worker"] == "2"
    assert abs(int(found["from"]) - 60) <= 2
    assert abs(int(found["to"]) - 79) <= 2
    assert found["slowdown"] == pytest.approx(1.5, rel=0.04)


def test_times_are_shown_as_the_table_has_them(tmp_path: Path) -> None:
    def row(worker: int, step: int, seconds: float) -> str:
        return f"pod-{worker},2026-01-01T00:{step // 60:02}:{step % 60:02}Z,{seconds}"

    (found,) = _listed(_table(tmp_path, "pod,time,duration", row))
    assert found["worker"] == "pod-2"
    assert str(found["from"]).startswith("2026-01-01T00:")
    shown = trilens_here("detect", "stragglers", str(tmp_path / "steps.csv")).stdout
    assert "worker" in shown
    assert "from time" in shown
    assert str(found["from"]) in shown


def test_a_stable_spread_of_production_has_none() -> None:
    file = str(require_corpus("stragglers", "job_2_norm.csv"))
    assert _listed(file) == []
    answer = trilens_here("detect", "stragglers", file)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert "no stragglers" in answer.stderr
    assert "10 workers, 2,402 rows" in answer.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker,step,step_time\n0,1,x\n0,2,1\n", "steps.csv:2: duration 'x' is not a number"),
        ("worker,step,step_time\n0,1,1\n0,,1\n", "steps.csv:3: no step"),
        ("worker,step,step_time\n0,1\n", "steps.csv:2: 2 columns where the header has 3"),
        ("worker,step,step_time\n0,1,-3\n", "steps.csv:2: a duration of -3 is none"),
        ("worker,step,step_time\n0,1,nan\n", "steps.csv:2: duration 'nan' is not a number"),
        ("worker,time,step_time\n0,noon,1\n", "steps.csv:2: time 'noon' is neither a number nor"),
        ("a,step,step_time\n0,1,1\n", "no column that looks like the worker"),
        ("worker,a,step_time\n0,1,1\n", "no column that looks like a step or a time"),
        ("worker,step,a\n0,1,1\n", "name it with --duration: there are 'worker', 'step', 'a'"),
        ("worker,step,step_time\n0,1,1\n0,2,1\n", "has one worker"),
        ("worker,step,step_time\n", "has no workers"),
        ("worker,step,step_time\n0,1,1\n1,1,1\n", "shows in 40 and more"),
        ("", "the first line is not a header"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "steps.csv").write_text(text, encoding="utf-8")
    answer = trilens_here("detect", "stragglers", "steps.csv", cwd=tmp_path)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert not answer.stdout


def test_many_bad_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("worker,step,step_time\n" + "0,1,x\n" * 25, encoding="utf-8")
    said = trilens_here("detect", "stragglers", "steps.csv", cwd=tmp_path).stderr
    assert "and 15 more" in said
    assert "25 rows cannot be read" in said


def test_a_file_and_a_column_that_are_not_there(tmp_path: Path) -> None:
    assert (
        "cannot read nowhere.csv" in trilens_here("detect", "stragglers", "nowhere.csv", cwd=tmp_path).stderr
    )
    file = _table(tmp_path, "worker,step,step_time", lambda w, n, s: f"{w},{n},{s}")
    answer = trilens_here("detect", "stragglers", file, "--duration", "step_tim")
    assert answer.returncode == 2
    assert "did you mean 'step_time'?" in answer.stderr
    both = trilens_here("detect", "stragglers", file, "--step", "step", "--time", "step")
    assert "exclude each other" in both.stderr
