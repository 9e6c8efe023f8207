"""A server is killed with -9 while programs send: nothing that was answered is lost, nothing is twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sending_programs import Program
from servers import free_port, running
from trilens.model.run import RunId
from trilens.model.run_sums import Portion
from trilens.store.engine import Engine
from trilens.store.runs import RunRecords
from trilens_process import TRILENS

if TYPE_CHECKING:
    from pathlib import Path

RANKS = 3


def test_every_record_is_there_once(tmp_path: Path) -> None:
    port = free_port()
    command = [*TRILENS, "up", "--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "data")]
    ready = f"http://127.0.0.1:{port}/readyz"
    with running(command, ready, log=tmp_path / "log") as process:
        programs = [Program(port, rank) for rank in range(RANKS)]
        for program in programs:
            assert program.halfway.wait(60)
        process.kill()
    with running(command, ready, log=tmp_path / "log"):
        for program in programs:
            program.finish.set()
        for program in programs:
            program.thread.join(60)
            assert program.acknowledged == program.sender.seq - 1
    run = RunId("crash")
    with Engine.open(tmp_path / "data") as engine:
        records = RunRecords(engine)
        found = [(step.rank, step.n) for step in records.steps(run, 0, 1 << 40, limit=1_000_000)]
        expected = [(program.sender.rank, n) for program in programs for n in range(program.sender.n)]
        assert sorted(found) == sorted(expected)
        assert sum(share.samples for share in records.shares(run, [Portion(0, 0, 1 << 40)])) == len(expected)
        assert sum(span.records for span in records.spans(run)) == len(expected)
        assert {process.attempt for process in records.processes([run])} == {0}
        curve = records.curve(run, "loss", 0, 1 << 40)
        assert len(curve) == max(program.sender.n for program in programs)
