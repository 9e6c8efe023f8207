"""The cluster of the bad night: its scenario, what is promised on it, and how it goes on after the night.

Nothing large is imported here: a demo needs this before anything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trilens.serve.rehearsal.kept_night import TOLD
from trilens.simulate.scenario import load_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.serve.rehearsal.laid_night import Laying

SCENARIO: Final = "bad-night"
CLUSTER: Final = "demo"
HOURS: Final = 12
# What teams may spend in a month: one of them spends it in a night.
_BUDGETS: Final = {"foundation": 9_000, "vision": 60_000, "search": 40_000}


def promised() -> Mapping[str, Any]:
    """What is promised to whom, as settings: objectives of services, and budgets."""
    limits = [{"team": team, "amount": amount, "currency": "USD"} for team, amount in _BUDGETS.items()]
    objectives = Path(__file__).with_name("objectives.yml")
    return {"rules": {"slo_files": [str(objectives)]}, "budgets": {"limits": limits}}


def identity(seed: int) -> str:
    """Whenever it begins, its runs are the same."""
    return f"{SCENARIO} {seed}"


def arguments_after(laying: Laying, seed: int) -> list[str]:
    """Of the simulator, to go on from the moment at which a night was left."""
    moment, begin_ms = laying.moment, laying.night.begin_ms
    return [
        *("--scenario", SCENARIO, "--seed", str(seed), "--identity", identity(seed)),
        *("--until", str(moment.at_ms + laying.by_ms), "--age", f"{(moment.at_ms - begin_ms) // 1000}s"),
        *("--told", str(laying.folder / moment.folder / TOLD)),
        *("--telling-ranks", str(load_scenario(SCENARIO).gpus)),
    ]
