"""From a program that fails and goes on from its checkpoint to what is inside the next one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from command_here import trilens_here
from servers import until
from trilens_process import clean_environment, server

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json, math, pathlib, sys
import trilens

path = pathlib.Path(sys.argv[1])
run = trilens.init("toy", name="digits", run_id="digits-1", total_steps=20, metrics=False)
done = json.loads(path.read_text()) if path.exists() else 0
if done:
    run.resumed(done, str(path))
for step in range(done + 1, 13):
    run.batch(ids=[step * 10, step * 10 + 7, step * 10 + 3], dataset="digits")
    with run.step(step, samples=3):
        with run.phase("forward"):
            run.log(loss=math.nan if step == 7 else 1.0)
        if step == 8 and not done:
            raise RuntimeError("out of memory")
    if step % 5 == 0 or step == 12:
        path.write_text(json.dumps(step))
        run.checkpoint(str(path), step)
run.finish()
"""


def asked(url: str, *arguments: str) -> list[dict[str, Any]]:
    answer = trilens_here(*arguments, "--json", "--server", url)
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def test_a_program_that_fails_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(file), str(tmp_path / "last.json")]
    with server(tmp_path) as (url, _):
        environ = clean_environment(TRILENS_SERVER=url, TRILENS_SPOOL=str(tmp_path / "spool"))
        assert subprocess.run(command, env=environ, check=False, stderr=subprocess.DEVNULL).returncode == 1
        assert subprocess.run(command, env=environ, check=False).returncode == 0
        until(lambda: asked(url, "runs", "--state", "finished") != [], "the run is not finished")
        (whole,) = asked(url, "runs", "show", "toy/digits")
        assert [
            (one["attempts"], one["first_step"], one["last_step"], one["ended"], one["error"])
            for one in whole["stretches"]
        ] == [([0], 1, 7, "failed", "RuntimeError: out of memory"), ([1], 6, 12, "finished", None)]
        (inside,) = asked(url, "lineage", "digits", "--checkpoint", "12")
        assert [(part["attempts"], part["first_step"], part["last_step"]) for part in inside["parts"]] == [
            ([0], 1, 5),
            ([1], 6, 12),
        ]
        assert [(part["first_step"], part["last_step"]) for part in inside["thrown_away"]] == [(6, 7)]
        assert [(one["batches"], one["samples"], one["unknown"]) for one in inside["datasets"]] == [
            (12, 36, 0)
        ]
        assert (inside["doubts"], inside["repeated"]) == ([], [])
        sightings = asked(url, "lineage", "--sample", "77")
        assert [(one["attempt"], one["kept"], one["checkpoints"]) for one in sightings] == [
            (0, False, []),
            (1, True, [10, 12]),
        ]
        (spikes,) = asked(url, "lineage", "digits", "--before-spike", "--window", "0")
        assert [(one["attempt"], one["step"], one["peak"]) for one in spikes["spikes"]] == [
            (0, 7, "NaN"),
            (1, 7, "NaN"),
        ]
        assert [one["spikes"] for one in spikes["common"]] == [[0, 1]]
