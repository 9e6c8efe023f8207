"""How long `trilens demo` takes until it answers with its night: what went wrong, and what that cost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil

from bench.report import table

if TYPE_CHECKING:
    from pathlib import Path

_ADDRESS: Final = "127.0.0.1:19333"
_HOURS: Final = 12
_WAIT_S: Final = 120.0
_AFTER_S: Final = 60.0  # over which it is watched once the night is there
_DEMO: Final = (sys.executable, "-m", "trilens.cli.main", "demo")


class DemoResult(NamedTuple):
    """Seconds from the command. `lost` is of the night, `cores` what it takes afterwards."""

    prepared_s: float
    incidents_s: float
    incidents: int
    first_money_s: float
    money_s: float
    lost: Decimal
    cores: float


def run(out: Path) -> DemoResult:
    began_s = time.monotonic()
    subprocess.run([*_DEMO, "--prepare"], check=True, stdout=subprocess.DEVNULL)
    prepared_s = time.monotonic() - began_s
    with (out / "demo.log").open("wb") as log:
        began_s = time.monotonic()
        process = subprocess.Popen([*_DEMO, "--listen", _ADDRESS], stdout=log, stderr=log)
        try:
            incidents = _until(lambda: _asked("/api/incidents?from=-12h"), lambda found: bool(found))
            incidents_s = time.monotonic() - began_s
            _until(_why, lambda why: why["hours"]["booked"] > 1)
            first_money_s = time.monotonic() - began_s
            why = _until(_why, lambda why: why["hours"]["booked"] >= _HOURS)
            money_s = time.monotonic() - began_s
            lost = sum((Decimal(one["for_nothing"] or 0) for one in why["totals"]), Decimal())
            cores = _cores(psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait(60)
    return DemoResult(prepared_s, incidents_s, len(incidents), first_money_s, money_s, lost, cores)


def shown(found: DemoResult) -> str:
    rows = [
        ("the night made and kept, once", f"{found.prepared_s:,.0f} s", ""),
        ("its incidents are answered", f"{found.incidents_s:.1f} s", f"{found.incidents} incidents"),
        ("the first of its hours are booked", f"{found.first_money_s:.1f} s", "5 s"),
        ("all of its hours are booked", f"{found.money_s:.1f} s", f"${found.lost:,.0f} lost"),
        ("cores while it goes on", f"{found.cores:.2f}", "less than 1"),
    ]
    return "## The demo\n\n" + table(("what", "figure", "of"), rows)


def _why() -> Any:
    return _asked("/api/cost/why?from=-12h")


def _asked(path: str) -> Any:
    """None where nobody answers yet."""
    try:
        with urllib.request.urlopen(f"http://{_ADDRESS}{path}", timeout=30) as answer:
            return json.load(answer)["data"]
    except (urllib.error.URLError, OSError):
        return None


def _until(ask: Any, is_there: Any) -> Any:
    until_s = time.monotonic() + _WAIT_S
    while time.monotonic() < until_s:
        found = ask()
        if found is not None and is_there(found):
            return found
        time.sleep(0.05)
    raise TimeoutError(f"no such answer within {_WAIT_S:g} s")


def _cores(demo: psutil.Process) -> float:
    before_s = _cpu_s(demo)
    time.sleep(_AFTER_S)
    return (_cpu_s(demo) - before_s) / _AFTER_S


def _cpu_s(demo: psutil.Process) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in (demo, *demo.children(recursive=True)))
