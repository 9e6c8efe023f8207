"""How long `trilens demo` takes until its first page says what the night has cost, and what it takes then."""

from __future__ import annotations

import json
import os
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
_HOURS: Final = 11  # those that are over of the twelve that the page asks for
_WAIT_S: Final = 120.0
_AFTER_S: Final = 60.0  # over which it is watched once the night is there
_DEMO: Final = (sys.executable, "-m", "trilens.cli.main", "demo")


class DemoResult(NamedTuple):
    """Seconds from the command, on the clock and of processors. `lost` is of the night, `cores` what it takes
    afterwards, `load` that of the machine when it was begun."""

    prepared_s: float
    answers_s: float
    page_s: float
    page_cpu_s: float
    incidents: int
    spent: Decimal
    lost: Decimal
    cores: float
    load: float


def run(out: Path) -> DemoResult:
    began_s = time.monotonic()
    subprocess.run([*_DEMO, "--prepare"], check=True, stdout=subprocess.DEVNULL)
    prepared_s = time.monotonic() - began_s
    load = os.getloadavg()[0]
    with (out / "demo.log").open("wb") as log:
        began_s = time.monotonic()
        process = subprocess.Popen([*_DEMO, "--listen", _ADDRESS], stdout=log, stderr=log)
        try:
            demo = psutil.Process(process.pid)
            _until(lambda: _asked("/"), lambda page: b"<html" in page)
            answers_s = time.monotonic() - began_s
            now = _until(_now, lambda now: now["money"]["hours"]["booked"] >= _HOURS and now["incidents"])
            page_s, page_cpu_s = time.monotonic() - began_s, _cpu_s(demo)
            cores = _cores(demo)
        finally:
            process.terminate()
            process.wait(60)
    money = now["money"]
    spent, lost = (Decimal(money[name] or 0) for name in ("spent", "lost"))
    incidents = len(now["incidents"]) + now["more_incidents"]
    return DemoResult(prepared_s, answers_s, page_s, page_cpu_s, incidents, spent, lost, cores, load)


def shown(found: DemoResult) -> str:
    rows = [
        ("the night looked for, and made where none is kept", f"{found.prepared_s:,.0f} s", ""),
        ("the server answers", f"{found.answers_s:.1f} s", ""),
        ("its first page says what was lost, and on what", f"{found.page_s:.1f} s", "5 s"),
        ("processors until then, the simulator's too", f"{found.page_cpu_s:.1f} s", ""),
        ("the load of the machine before", f"{found.load:.1f}", ""),
        ("lost that night", f"${found.lost:,.0f}", f"${found.spent:,.0f}"),
        ("incidents that last", f"{found.incidents}", ""),
        ("cores while it goes on", f"{found.cores:.2f}", "less than 1"),
    ]
    return "## The demo\n\n" + table(("what", "figure", "of"), rows)


def _now() -> Any:
    answer = _asked("/api/now")
    return None if answer is None else json.loads(answer)["data"]


def _asked(path: str) -> bytes | None:
    """None where nobody answers yet."""
    try:
        with urllib.request.urlopen(f"http://{_ADDRESS}{path}", timeout=30) as answer:
            body: bytes = answer.read()
            return body
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
