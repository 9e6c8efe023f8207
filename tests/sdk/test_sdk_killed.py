"""A program and a server that are killed: what had been written is there in the end, each record once."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import httpx

from killed_training import program
from servers import free_port, running, until
from trilens.sdk.guard import Guard
from trilens.sdk.outbox.folder import find_folders
from trilens.sdk.outbox.send_left import send_left
from trilens_process import TRILENS

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def written(process: subprocess.Popen[str]) -> int:
    """The last step that is on disk, after some more than there were now."""
    assert process.stdout is not None
    now_ns, later = time.time_ns(), 0
    while later < 3:
        step, at_ns = map(int, process.stdout.readline().split())
        later += at_ns > now_ns
    return step


def last_step(client: httpx.Client) -> int:
    answer = client.get("/api/runs/run-1")
    step = answer.json()["data"]["run"]["step"] if answer.status_code == 200 else None
    return -1 if step is None else int(step)


def test_nothing_that_was_written_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    url, spool = f"http://{address}", tmp_path / "spool"
    command = [*TRILENS, "up", "--listen", address, "--data", str(tmp_path / "data")]

    with (
        program(url, spool, tmp_path / "program.log") as training,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        with running(command, f"{url}/readyz", log=tmp_path / "log-1") as server:
            before = written(training)
            until(lambda: last_step(client) >= before, "the first records did not come")
            server.kill()
            server.wait()
        while_away = written(training)

        with running(command, f"{url}/readyz", log=tmp_path / "log-2") as server:
            until(lambda: last_step(client) >= while_away, "what was told meanwhile did not come")
            server.send_signal(signal.SIGSTOP)  # it takes requests and does not answer
            at_kill = written(training)
            training.kill()
            training.wait()
            server.send_signal(signal.SIGCONT)

            (waiting,) = find_folders(spool)
            assert (waiting.about.run, waiting.is_alive) == ("run-1", False)
            assert waiting.bytes_there > 0
            (sent,) = send_left(spool, Guard(), None, None)  # as `trilens spool send` does
            assert (sent.server, sent.sent_bytes, sent.error) == (url, waiting.bytes_there, None)
            assert find_folders(spool) == []

            # Every step saw both samples, so what is known of one is all steps.
            seen = client.get("/api/samples/0?run=run-1").json()["data"]
            steps = sorted(one["step"] for one in seen)
            assert (steps, steps[-1] >= at_kill) == (list(range(len(steps))), True)
            for step in (0, before, while_away, at_kill):
                (found,) = client.get(f"/api/runs/run-1/steps/{step}").json()["data"]["ranks"]
                assert (found["n"], found["values"]) == (step, {"loss": 1.0})
                (batch,) = found["batches"]
                assert (batch["dataset"], batch["range"]) == ("letters", [0, 2, 1])
            run = client.get("/api/runs/run-1").json()["data"]["run"]
    assert (run["state"], run["attempts"]) == ("lost", 1), "what another process sends is no sign of life"
    assert "Traceback" not in (tmp_path / "program.log").read_text()
