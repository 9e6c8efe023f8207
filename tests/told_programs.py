"""Programs as people start them, and what they told a server of themselves."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from records_server import RecordsServer, listening
from sdk_runs import Told
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[1] / "examples"
PYTHON = [sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


class Listener(RecordsServer):
    url = ""

    def told(self, rank: int = 0) -> Told:
        """By all lives of one rank."""
        mine = RecordsServer()
        mine.batches = {
            writer: batches for writer, batches in self.batches.items() if batches[0]["rank"] == rank
        }
        return Told(mine)

    def lives(self) -> list[Told]:
        """By each process, in the order in which they began."""
        found = []
        for writer, batches in self.batches.items():
            one = RecordsServer()
            one.batches = {writer: batches}
            found.append(Told(one))
        return found

    @property
    def runs(self) -> set[str]:
        return {batch["run"] for batch in self.all_batches()}


@contextmanager
def listener() -> Iterator[Listener]:
    server = Listener()
    with listening(server) as url:
        server.url = url
        yield server


def surroundings(listener: Listener, folder: Path) -> dict[str, str]:
    """Where a program's records go."""
    return {"TRILENS_SERVER": listener.url, "TRILENS_SPOOL": str(folder / "spool")}


def run_program(
    command: list[str], listener: Listener, folder: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    """To its end, in a folder of its own; what it wrote is shown when a test fails."""
    environment = clean_environment(
        **surroundings(listener, folder),
        OMP_NUM_THREADS="1",  # as many processes as cores are at work already
        **environ,
    )
    ended = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    print(ended.stdout, ended.stderr)
    return ended


def ids_of(batch: dict[str, Any]) -> list[int]:
    """The samples of a batch, however they were told."""
    if "range" in batch:
        first, count, stride = batch["range"]
        return [first + i * stride for i in range(count)]
    return list(batch["ids"])
