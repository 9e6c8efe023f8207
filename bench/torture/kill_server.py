"""A server that is killed with -9 at random moments, while it takes samples and records, evaluates rules,
tells of alerts and books the hour; in one round of four while it starts.

After each kill: every sample that was acknowledged is there; the alert that was raised before it is told, and
told again only where the kill may have come between the telling and noting it; what is booked adds up to the
time and the price of the GPUs. In the end of each session: every record of a step is there once, and hours
were booked.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import httpx
import yaml

from acknowledged_writes import Writer, write_until_gone
from bench.torture.alarm import alarm_rules
from bench.torture.row import Outcome, Row
from bench.torture.tally import Tally
from receivers_at_work import HttpReceiver
from sample_now import write_now
from sending_programs import Program
from servers import end_with_the_tests, free_port, running, until
from trilens.model.run import RunId
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import read_scenario
from trilens.store.engine import Engine
from trilens.store.runs import RunRecords
from trilens_process import TRILENS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.torture.row import Wanted
    from bench.torture.tally import Session

_WRITERS: Final = 2
_RANKS: Final = 2
_KILLS: Final = 25  # of one server's data, before all of it is looked at
_STARTING: Final = 4  # in one round of so many the server is killed before it is ready
# Lives after that which was killed between telling and noting: the next one may be killed while it starts,
# and the one after it before it comes to that alert.
_AGAIN_WITHIN: Final = 3
_RECEIVED_S: Final = 0.3
_SCENARIO: Final = """
name: small
pools: [{name: h100, model: H100, nodes: 2}]
jobs:
  - {name: train, kind: JobSet, namespace: research, team: vision, pool: h100, pods: 1, gpus_per_pod: 8,
     arrivals: {at_start: 1}, duration: 12h, training: {checkpoint_every: 100}}
"""


def _settings(folder: Path, cluster: SimulatedCluster, receiver: HttpReceiver) -> str:
    cluster.write_kubeconfig(folder / "kubeconfig")
    dcgm = {
        "job_name": "dcgm",
        "scrape_interval": "5s",
        "http_sd_configs": [{"url": cluster.dcgm_targets}],
        "relabel_configs": [{"target_label": "cluster", "replacement": "sim"}],
    }
    tree = {
        "kubernetes": {"clusters": {"sim": {"kubeconfig": str(folder / "kubeconfig")}}},
        "scrape": {"scrape_configs": [dcgm]},
        **alarm_rules(folder),
        "alerting": {"receivers": {"ops": {"webhook": {"url": receiver.url}}}, "group_wait": "0s"},
    }
    (folder / "trilens.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return str(folder / "trilens.yaml")


class _Alarms:
    """Raised one a round, each about a node of its own; in which of the server's lives it was told of."""

    def __init__(self, receiver: HttpReceiver) -> None:
        self._receiver = receiver
        self.life = 0
        self.raised: list[str] = []
        self.told: dict[str, list[int]] = {}

    def raise_one(self, url: str) -> None:
        node = f"n-{len(self.raised)}"
        write_now(url, "alarm", 1.0, node=node).raise_for_status()
        self.raised.append(node)

    def hear_the_last(self) -> None:
        """Of a life that was ended: the receiver's own threads come to their end, too."""
        time.sleep(_RECEIVED_S)
        self.hear()

    def hear(self) -> None:
        """What was posted since, by the life that lasts or has just been ended."""
        while not self._receiver.posted.empty():
            message = self._receiver.posted.get().json
            if message["trilens"]["occasion"] == "opened":
                for node in self._nodes(message):
                    self._told_of(node)

    def _told_of(self, node: str) -> None:
        lives = self.told.setdefault(node, [])
        lives.append(self.life)
        assert len(lives) == 1 or 0 < lives[-1] - lives[-2] <= _AGAIN_WITHIN, (
            f"{node} was told again though no kill was between: in the server's lives {lives}"
        )

    def untold(self) -> list[str]:
        self.hear()
        return [node for node in self.raised if node not in self.told]

    @property
    def again(self) -> int:
        return sum(len(lives) - 1 for lives in self.told.values())

    def _nodes(self, message: dict[str, Any]) -> set[str]:
        text = json.dumps(message)
        return {node for node in self.raised if f'"{node}"' in text}


class _Rounds:
    """A server that is started, looked at, put to work and killed, on the same data each time."""

    def __init__(self, session: Session, cluster: SimulatedCluster, receiver: HttpReceiver) -> None:
        folder, port = session.folder, free_port()
        self._session = session
        self._port = port
        self._url = f"http://127.0.0.1:{port}"
        self._command = [*TRILENS, "up", f"--listen=127.0.0.1:{port}", f"--data={folder / 'data'}"]
        self._command.append(f"--config={_settings(folder, cluster, receiver)}")
        self._start_s = 0.0  # that the last one took
        self.alarms = _Alarms(receiver)
        self.writers = [Writer(number) for number in range(_WRITERS)]
        self.programs: list[Program] = []

    def kill(self) -> None:
        before = self._taken
        with self._server() as process:
            if not self.programs:
                self.programs = [Program(self._port, rank) for rank in range(_RANKS)]
            self._check()
            self.alarms.raise_one(self._url)
            booking = threading.Thread(target=self._book)
            booking.start()
            threads, _ = write_until_gone(self._url, self.writers)
            kill = threading.Timer(self._session.moment_s(), process.kill)
            kill.start()
            for thread in (kill, booking, *threads):
                thread.join(60)
        assert self._taken > before, "not a write of this round was acknowledged"
        self.alarms.hear_the_last()

    def kill_while_it_starts(self) -> None:
        self.alarms.life += 1
        with (self._session.folder / "log-of-start").open("wb") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, preexec_fn=end_with_the_tests)
        try:
            time.sleep(self._session.rng.uniform(0, self._start_s))
        finally:
            process.kill()
            process.wait()
        self._session.add("starts")
        self.alarms.hear_the_last()

    def finish(self) -> None:
        with self._server():
            self._check()
            for program in self.programs:
                program.finish.set()
            for program in self.programs:
                program.thread.join(120)
                assert not program.thread.is_alive(), "records are not taken any more"
            until(self._has_booked, "no hour is booked")
            self._check()

    @contextmanager
    def _server(self) -> Iterator[subprocess.Popen[bytes]]:
        self.alarms.life += 1
        began_s = time.monotonic()
        with running(self._command, f"{self._url}/readyz", log=self._session.folder / "log") as process:
            self._start_s = time.monotonic() - began_s
            yield process

    @property
    def _taken(self) -> int:
        return sum(len(writer.acknowledged) for writer in self.writers)

    def _check(self) -> None:
        refused = [one.text for writer in self.writers for one in writer.refused if one.status_code < 500]
        assert not refused, f"writes are refused as if they were wrong: {refused[-1]}"
        lost = [writer.missing(self._url) for writer in self.writers]
        assert not any(lost), f"acknowledged writes are lost: {lost}"
        until(lambda: not self.alarms.untold(), f"nobody was told of {self.alarms.untold()}")
        answer = self._ask("GET", "verify")
        assert not answer["mismatches"], f"the ledger does not add up: {answer}"
        assert answer["billed"] == answer["booked"], f"the ledger does not add up: {answer}"
        self._session.add("hours", answer["hours"])

    def _has_booked(self) -> bool:
        self._book()
        return bool(self._ask("GET", "verify")["hours"])

    def _book(self) -> None:
        """Now, and not when the server has it next: a kill is to come in between."""
        with suppress(httpx.HTTPError):
            self._ask("POST", "recompute")

    def _ask(self, method: str, what: str) -> Any:
        now_s = time.time()
        span = {"from": f"{now_s - 7_200:.0f}", "to": f"{now_s:.0f}"}
        answer = httpx.request(method, f"{self._url}/api/ledger/{what}", params=span, timeout=60)
        return answer.raise_for_status().json()["data"]


def _run(wanted: Wanted) -> Outcome:
    tally = Tally(wanted)
    while not tally.is_over:
        with tally.session(_KILLS) as session:
            _session(session)
            session.keep()
    counts = tally.counts
    told = (
        f"{tally.times:,} kills, {counts['starts']:,} of them before it was ready; "
        f"{counts['acknowledged']:,} acknowledged writes, none lost; {counts['steps']:,} records of steps, "
        f"each once; {counts['alerts']:,} alerts, none lost, {counts['again']:,} told again after a kill; "
        f"{counts['hours']:,} booked hours looked at, all add up"
    )
    return Outcome(True, tally.times, told)


def _session(session: Session) -> None:
    now_ms = time.time_ns() // 1_000_000
    world = grown(read_scenario(_SCENARIO, "torture.yaml"), now_ms=now_ms, age_ms=20 * 60_000, seed=1)
    with HttpReceiver() as receiver, SimulatedCluster(world) as cluster:
        rounds = _Rounds(session, cluster, receiver)
        while session.left:
            is_while_starting = session.left % _STARTING == 1 and bool(rounds.programs)
            rounds.kill_while_it_starts() if is_while_starting else rounds.kill()
            session.done_once()
        rounds.finish()
    session.add("acknowledged", sum(len(writer.acknowledged) for writer in rounds.writers))
    session.add("steps", _steps_once(session.folder / "data", rounds.programs))
    session.add("alerts", len(rounds.alarms.raised))
    session.add("again", rounds.alarms.again)


def _steps_once(data: Path, programs: list[Program]) -> int:
    run = RunId("crash")
    with Engine.open(data) as engine:
        found = [(one.rank, one.n) for one in RunRecords(engine).steps(run, 0, 1 << 40, limit=10_000_000)]
    expected = [(one.sender.rank, n) for one in programs for n in range(one.sender.n)]
    assert sorted(found) == sorted(expected), f"{len(found)} records of steps, {len(expected)} were answered"
    return len(found)


KILL_SERVER: Final = Row(
    "kill-server",
    "kill -9 of the server at random moments, under writes, records of steps, alerts and booking",
    "nothing acknowledged lost, alerts at least once, the ledger adds up",
    100,
    "times",
    _run,
)
