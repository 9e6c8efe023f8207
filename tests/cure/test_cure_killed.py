"""A kill -9 between a deed and its record, of a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cure_bench import now_ms

from kubernetes_client import NODES
from live_cluster import make_node
from trilens.model.fix import FixState, fix_id
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cure_bench import Bench

    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient

NODE = "cure-killed"
PROGRAM = Path(__file__).with_name("killed_between.py")


@pytest.fixture
def store(tmp_path: Path, kubernetes: KubernetesServer, admin: KubernetesClient) -> Iterator[Store]:
    """As the process has left it that was killed when it had closed the node."""
    make_node(admin, NODE)
    arguments = [tmp_path / "data", kubernetes.kubeconfig(), NODE, now_ms()]
    killed = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    opened = Store.open(StoreOptions(tmp_path / "data"), upkeep=False)
    yield opened
    opened.close()
    admin.delete(NODES, NODE)


def test_a_deed_whose_record_was_not_written_is_found_done(bench: Bench) -> None:
    id = fix_id("event", NODE, "e1")
    assert bench.is_closed(NODE)
    intent = bench.fix(id)
    assert intent is not None
    assert (intent.state, intent.before) == (FixState.BEGUN, {"unschedulable": False})
    with bench.keeper():
        done = bench.comes_to(id, FixState.DONE)
    assert done.result == "found done after a restart of Trilens"
    assert (done.before, done.after) == ({"unschedulable": False}, {"unschedulable": True})
