"""The fleet's scrape targets in a process of their own, so that their work is not counted for any server."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trilens.simulate.fleet import Fleet
from trilens.simulate.targets import FleetTargets

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def serving(nodes: int, nodes_per_target: int) -> Iterator[list[str]]:
    """The addresses of the targets, as long as the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.targets", str(nodes), str(nodes_per_target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def main() -> None:
    nodes, nodes_per_target = int(sys.argv[1]), int(sys.argv[2])
    with FleetTargets(Fleet(nodes), nodes_per_target=nodes_per_target) as targets:
        print(json.dumps(targets.addresses), flush=True)
        sys.stdin.read()  # until the parent closes it


if __name__ == "__main__":
    main()
