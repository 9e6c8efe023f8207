"""`trilens demo --fault`: each fault goes wrong, arrives in a real Alertmanager, and is resolved there."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from long_form import IS_LONG
from receivers_at_work import Alertmanager
from servers import free_port
from trilens.cli.demo_stage import NAMESPACE, QUICK, chosen
from trilens_process import TRILENS, clean_environment

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.cli.demo_stage import ShownFault

pytestmark = [pytest.mark.long, pytest.mark.hunt]


# One of each kind: a rank that stands, one that is slow, one that ends, a device, a number, what is not told.
SHOWN = QUICK if IS_LONG else "hang,straggler,exception,gpu-lost,nan,exporter-silent"
LONGEST_S = 420  # of a show that takes two and a half minutes, on a machine that is busy with other tests
LOOK_S = 1.0


def names(fault: ShownFault) -> dict[str, str]:
    """What its alert must say, by what was asked of the simulator alone."""
    said = {"alertname": fault.alert, "node": f"{fault.name}-{fault.strikes.get('node', 0):04d}"}
    if "workload" in fault.names:
        said |= {"workload": f"{fault.name}-1", "namespace": NAMESPACE}
    if "rank" in fault.names:
        said["rank"] = str(fault.strikes["rank"])
    elif "node" not in fault.names:
        del said["node"]  # all ranks of the job are in trouble, or nobody knows which
    return said


def arrived(held: list[dict[str, Any]], fault: ShownFault) -> bool:
    return any(names(fault).items() <= alert["labels"].items() for alert in held)


def test_each_fault_arrives_in_an_alertmanager_and_is_resolved(tmp_path: Path) -> None:
    faults = chosen(SHOWN)
    alertmanager = Alertmanager(tmp_path, free_port(), free_port())
    command = [
        *TRILENS, "demo", "--fault", SHOWN, "--json", "--alertmanager", alertmanager.url,
        "--listen", f"127.0.0.1:{free_port()}",
    ]  # fmt: skip
    said = tmp_path / "said"
    with (
        alertmanager.running(),
        said.open("wb") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, env=clean_environment(TMPDIR=str(tmp_path))
        ) as process,
    ):
        try:
            seen: set[str] = set()
            deadline = time.monotonic() + LONGEST_S
            while process.poll() is None and time.monotonic() < deadline:
                held = alertmanager.held()
                seen |= {fault.name for fault in faults if arrived(held, fault)}
                time.sleep(LOOK_S)  # another program gives no event to wait for
            assert process.poll() is not None, said.read_text()
            left = [fault.name for fault in faults if arrived(alertmanager.held(), fault)]
        finally:
            process.kill()
        assert process.stdout is not None
        told = {one["fault"]: one for one in json.loads(process.stdout.read())}
    assert seen == {fault.name for fault in faults}, said.read_text()
    assert left == []
    assert {name for name, one in told.items() if not one["is_shown"]} == set(), said.read_text()
    assert process.returncode == 0
    assert [name for name, one in told.items() if not one["arrived_ms"] < one["resolved_ms"]] == []
