"""What listens on this machine alone is not told to a server elsewhere, which would scrape itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import trilens
from sdk_runs import begun
from trilens.sdk.loopback import is_out_of_reach

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("address", "server", "out_of_reach"),
    [
        ("127.0.0.1:9350", "http://trilens.example:9333", True),
        ("[::1]:9350", "https://10.0.0.7", True),
        ("127.0.0.1:9350", "http://127.0.0.1:9333", False),
        ("127.0.0.1:9350", "http://localhost:9333", False),
        ("10.0.0.8:9350", "http://trilens.example:9333", False),
    ],
)
def test_only_loopback_and_only_from_elsewhere(address: str, server: str, out_of_reach: bool) -> None:
    assert is_out_of_reach(address, server) is out_of_reach


def test_a_server_here_is_told_the_port_and_one_elsewhere_is_not(tmp_path: Path) -> None:
    with begun(tmp_path, metrics="127.0.0.1:0") as (run, told):
        address = run.metrics_address
    assert told.last("process")["metrics_address"] == address
    with trilens.init(
        server="http://trilens.invalid:9", spool=tmp_path / "else", metrics="127.0.0.1:0"
    ) as run:
        assert run.metrics_address is not None, "people on this machine can still look"
    lines = [line for file in (tmp_path / "else").rglob("*") if file.is_file() for line in _batches(file)]
    assert [batch["process"].get("metrics_address") for batch in lines if "process" in batch] == [None]


def _batches(file: Path) -> list[dict[str, dict[str, object]]]:
    text = file.read_text(errors="replace")
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"v"')]
