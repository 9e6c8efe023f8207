"""A training program that is killed with -9 at random moments: what it had written down is there, once.

After each kill what its outbox still holds is sent as
`trilens spool send` does it, and the server is asked for every step that was on disk before the kill.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import httpx

from bench.torture.row import Outcome, Row
from bench.torture.tally import Tally
from killed_training import program
from trilens.sdk.guard import Guard
from trilens.sdk.outbox.folder import find_folders
from trilens.sdk.outbox.send_left import send_left
from trilens_process import server

if TYPE_CHECKING:
    from bench.torture.row import Wanted
    from bench.torture.tally import Session


def _run(wanted: Wanted) -> Outcome:
    tally = Tally(wanted)
    if not tally.is_over:
        with (
            tally.session() as session,
            server(session.folder) as (url, _),
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            while session.left:
                _kill(url, client, session)
                session.keep()
    told = (
        f"{tally.times:,} kills; {tally.counts['steps']:,} steps on disk before them, all there once; "
        f"{tally.counts['left']:,} times something was left to send"
    )
    return Outcome(True, tally.times, told)


def _kill(url: str, client: httpx.Client, session: Session) -> None:
    run = f"killed-{session.left}"
    spool = session.folder / run
    last = -1
    with program(url, spool, session.folder / "program.log", run=run) as training:
        assert training.stdout is not None
        assert training.stdout.readline(), "the program did not begin"
        timer = threading.Timer(session.moment_s(), training.kill)
        timer.start()
        for line in training.stdout:  # what it had told of when it ended was on disk
            if line.endswith("\n"):
                last = int(line.split()[0])
        timer.join()
    session.done_once()
    if any(one.bytes_there for one in find_folders(spool)):
        session.add("left")
    errors = [sent.error for sent in send_left(spool, Guard(), None, None) if sent.error]
    assert not errors, f"what was left cannot be sent: {errors}"
    seen = client.get(f"/api/samples/0?run={run}&limit=100000").json()["data"] if last >= 0 else []
    steps = sorted(one["step"] for one in seen)
    assert steps == list(range(len(steps))), f"{run}: steps are missing, or there twice: {steps}"
    assert len(steps) > last, f"{run}: step {last} was on disk, and {len(steps)} steps are there"
    session.add("steps", last + 1)
    log = (session.folder / "program.log").read_text(encoding="utf-8")
    assert "Traceback" not in log, log


KILL_PROGRAM: Final = Row(
    "kill-program",
    "kill -9 of a training program at random moments, and its outbox sent after it",
    "nothing that was on its disk is lost or there twice",
    100,
    "times",
    _run,
)
