"""Every row of the table, in its order."""

from __future__ import annotations

from typing import Final

from bench.torture.away import AWAY_ROWS
from bench.torture.fuzz.rows import FUZZ_ROWS
from bench.torture.kill_agent import KILL_AGENT
from bench.torture.kill_program import KILL_PROGRAM
from bench.torture.kill_server import KILL_SERVER
from bench.torture.load import LOAD
from bench.torture.machine import MACHINE_ROWS
from bench.torture.text_comes_back import TEXT_COMES_BACK

ROWS: Final = (
    LOAD,
    KILL_SERVER,
    KILL_AGENT,
    KILL_PROGRAM,
    *AWAY_ROWS,
    *MACHINE_ROWS,
    *FUZZ_ROWS,
    TEXT_COMES_BACK,
)
BY_NAME: Final = {row.name: row for row in ROWS}
