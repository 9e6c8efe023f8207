"""`trilens agent` as a process of its own, and what it is made of."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from servers import free_port, running
from trilens.collect.node.agent_metrics import DESCRIPTIONS
from trilens_process import TRILENS, clean_environment, trilens

DOCS = Path(__file__).parents[2] / "docs"
# The engine, arrays, servers and clients that a node has no use for.
HEAVY = {"aiohttp", "chdb", "clickhouse_connect", "cramjam", "google", "grpc", "httpx", "msgspec", "numpy"}
HEAVY |= {"orjson", "prometheus_client", "promql_parser", "pyarrow", "re2", "starlette", "uvicorn", "uvloop"}


def test_it_runs_on_any_machine_and_stops_when_told(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "trilens.yaml").write_text(
        f"agent: {{state_file: state.json, kernel_log: {tmp_path}/kern.log, proc_dir: {tmp_path}}}",
        encoding="utf-8",
    )
    xid = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    (tmp_path / "kern.log").write_text(f"{xid}\n", encoding="utf-8")
    command = [*TRILENS, "agent", "--config", str(tmp_path / "trilens.yaml"), "--listen", address]
    with running(command, f"http://{address}/healthz", log=tmp_path / "log") as process:
        texts = (httpx.get(f"http://{address}/metrics").text for _ in range(1000))
        text = next(text for text in texts if "trilens_gpu_xid_total{" in text)
        assert 'trilens_agent_problem{part="kernel-log"' in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert f"serves http://{address}/metrics" in (tmp_path / "log").read_text(encoding="utf-8")
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert state["totals"] == [["xid", "00000000:01:00.0", 79, 1]]


def test_it_needs_nothing_heavy() -> None:
    program = (
        "import sys, trilens.cli.main\n"
        "import trilens.collect.node.agent, trilens.collect.node.endpoint, trilens.collect.node.fault_watch\n"
        "import trilens.collect.node.nvml, trilens.serve.logs, trilens.settings.load, pynvml\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=clean_environment()
    )
    assert HEAVY & set(ran.stdout.split()) == set()


def test_settings_that_make_no_sense(tmp_path: Path) -> None:
    wrong = trilens("agent", "--listen", "0.0.0.0:9334", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "TRILENS_AGENT_TOKEN" in wrong.stderr
    assert (
        "none of auto, kmsg, journal, off"
        in trilens("agent", TRILENS_AGENT_KERNEL_LOG="dmesg", cwd=tmp_path).stderr
    )
    assert "not a regular expression" in trilens("agent", TRILENS_AGENT_REDACT="(", cwd=tmp_path).stderr


def test_every_metric_and_page_is_documented() -> None:
    written = (DOCS / "agent.md").read_text(encoding="utf-8")
    missing = [name for name in DESCRIPTIONS if f"`{name}`" not in written]
    assert missing == []
    for page in ("/metrics", "/healthz", "/v1/events", "/v1/processes", "/v1/devices", "/v1/output"):
        assert f"`{page}" in written
