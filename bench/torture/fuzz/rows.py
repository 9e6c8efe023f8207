"""A row for each target, and one for the whole HTTP API."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from bench.torture.fuzz.campaign import fuzz
from bench.torture.fuzz.http_api import HTTP_API
from bench.torture.fuzz.targets import TARGETS
from bench.torture.row import Outcome, Row

if TYPE_CHECKING:
    from bench.torture.row import Wanted

_LENGTH_S: Final = 600.0
_GOAL: Final = "no crash, no hang, no growth, nothing run or written"


def _run(name: str, wanted: Wanted) -> Outcome:
    found = fuzz(name, wanted.folder, wanted.length)
    told = (
        f"{found.inputs:,} inputs, {found.taken / max(1, found.inputs):.0%} taken, the slowest "
        f"{found.slowest_s:.1f} s; findings: {', '.join(found.findings) or 'none'}; crashes: "
        f"{found.crashes}; memory: {found.memory or 'too short to tell'}"
    )
    return Outcome(found.passed, found.seconds, told)


FUZZ_ROWS: Final = (
    *(
        Row(
            f"fuzz-{target.name}",
            target.what,
            _GOAL,
            _LENGTH_S,
            "s",
            partial(_run, target.name),
            target.take.__module__,
        )
        for target in TARGETS
    ),
    HTTP_API,
)
