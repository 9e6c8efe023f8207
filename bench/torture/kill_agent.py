"""An agent that is killed with -9 while a kernel writes Xids: each is counted once, and at the server once.

The kernel's log is a file, as rsyslog writes it. Between a kill and the next start more lines come.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import httpx
import yaml

from bench.torture.row import Outcome, Row
from bench.torture.tally import Tally
from servers import free_port, running, until
from trilens_process import TRILENS, server

if TYPE_CHECKING:
    from pathlib import Path

    from bench.torture.row import Wanted
    from bench.torture.tally import Session

_NODE: Final = "gpu-7"
_FAULT: Final = "NVRM: Xid (PCI:0000:{bus:02x}:00): 31, pid={number}, name=python, MMU Fault."
_EACH_S: Final = 0.02
_LOOKED_AT: Final = 4_000  # the last ones: an agent keeps a thousand more for who asks
_GPUS: Final = 8
_KILLS: Final = 25  # of one agent's data, before all of it is looked at


class _Kernel:
    """Writes faults for as long as it is asked to, each with a number of its own."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.written = 0
        self._log.touch()

    def write(self, count: int = 1) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            for _ in range(count):
                self.written += 1
                fault = _FAULT.format(bus=self.written % _GPUS + 1, number=self.written)
                log.write(f"{datetime.now(UTC).isoformat()} {_NODE} kernel: {fault}\n")

    def until(self, over: threading.Event) -> None:
        while not over.wait(_EACH_S):
            self.write()


def _run(wanted: Wanted) -> Outcome:
    tally = Tally(wanted)
    while not tally.is_over:
        with tally.session(_KILLS) as session:
            _session(session)
            session.keep()
    counts = tally.counts
    return Outcome(
        True,
        tally.times,
        f"{tally.times:,} kills; {counts['faults']:,} Xids written meanwhile, each counted once; "
        f"{counts['told']:,} looked at with the server, none lost, none twice",
    )


def _session(session: Session) -> None:
    folder, address = session.folder, f"127.0.0.1:{free_port()}"
    kernel = _Kernel(folder / "kern.log")
    agent = {
        "listen": address,
        "node_name": _NODE,
        "kernel_log": str(folder / "kern.log"),
        "gpu_metrics": "off",
        "state_file": str(folder / "state.json"),
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump({"agent": agent}), encoding="utf-8")
    asked = {"static_configs": [{"targets": [address]}], "scrape_interval": "1s"}
    (folder / "trilens.yaml").write_text(
        yaml.safe_dump({"agents": {"scrape_config": asked}}), encoding="utf-8"
    )
    command = [*TRILENS, "agent", "--config", str(folder / "agent.yaml")]
    with server(folder, "--config", str(folder / "trilens.yaml")) as (url, _):
        while session.left:
            with running(command, f"http://{address}/healthz", log=folder / "agent.log") as process:
                over = threading.Event()
                writing = threading.Thread(target=kernel.until, args=(over,))
                writing.start()
                time.sleep(session.moment_s())
                process.kill()
                process.wait()
                over.set()
                writing.join()
            session.done_once()
            kernel.write(session.rng.randrange(5))  # while nobody looks
        with running(command, f"http://{address}/healthz", log=folder / "agent.log"):
            until(
                lambda: _counted(address) >= kernel.written,
                f"{_counted(address)} of {kernel.written} Xids are counted",
            )
            counted = _counted(address)
            assert counted == kernel.written, f"{kernel.written} Xids were written, {counted} are counted"
            until(lambda: _told(url)[-1:] == [kernel.written], "the last Xid does not come to the server")
            told = _told(url)
    twice = len(told) - len(set(told))
    assert not twice, f"{twice} Xids came to the server twice"
    lost = sorted(set(range(max(1, kernel.written - _LOOKED_AT), kernel.written + 1)) - set(told))
    assert not lost, f"{len(lost)} Xids did not come to the server: {lost[:20]}"
    session.add("faults", kernel.written)
    session.add("told", len(told))


def _counted(agent: str) -> int:
    lines = httpx.get(f"http://{agent}/metrics", timeout=60).raise_for_status().text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("trilens_gpu_xid_total{"))


def _told(url: str) -> list[int]:
    """The numbers of the faults that the server knows of."""
    asked = {"node": _NODE, "limit": "10000", "from": f"{time.time() - 86_400:.0f}"}
    answer = httpx.get(f"{url}/api/events", params=asked, timeout=60).raise_for_status().json()["data"]
    return sorted(one["pid"] for one in answer if one["pid"] is not None)


KILL_AGENT: Final = Row(
    "kill-agent",
    "kill -9 of an agent at random moments, while a kernel writes Xids",
    "each Xid counted once, and at the server once",
    100,
    "times",
    _run,
)
