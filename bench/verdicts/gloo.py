"""Real ranks over gloo, each time with a fault put into them: dumps of flight recorders, and logs.

Recorded by tests/diagnose/gloo_flight/job.py and gloo_logs/job.py, which say what the fault was.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.verdicts.labelled import Case, Label, Said
from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.flight.reading import DumpSource, read_dumps, read_stack
from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.flight.flight_verdict import FlightVerdict
    from trilens.diagnose.logs.log_verdict import LogVerdict

_TESTS: Final = Path(__file__).parents[2] / "tests" / "diagnose"
FLIGHTS: Final = _TESTS / "gloo_flight"
LOGS: Final = _TESTS / "gloo_logs"
FLIGHT_FAULTS: Final = {
    "all_well": (Reason.NOTHING_PENDING, ()),
    "rank_sleeps": (Reason.NEVER_ENTERED, (2,)),
    "another_collective": (Reason.MISMATCHED_COLLECTIVE, (1,)),
    "another_shape": (Reason.MISMATCHED_SHAPE, (1,)),
    "another_dtype": (Reason.MISMATCHED_DTYPE, (3,)),
    "left_one_out": (Reason.MISMATCHED_COLLECTIVE, (3,)),
    "rank_raised": (Reason.DID_NOT_DUMP, (1,)),
    "group_in_between": (Reason.NEVER_ENTERED, (3,)),
    "groups_in_a_circle": (Reason.MISMATCHED_ORDER, (1, 2)),
    "waits_in_a_receive": (Reason.NEVER_ENTERED, (2,)),
}
LOG_FAULTS: Final = {
    "raise": ("exception", 1),
    "kill": ("killed", 1),
    "segv": ("crashed", 2),
    "exit": ("rank-left", 1),
    "monitored": ("rank-behind", 2),
    "shape": ("mismatched-shape", 1),
    "op": ("mismatched-collective", 1),
    "mem": ("host-out-of-memory", 0),
}
UNTOLD: Final = "sleep"  # two ranks wait for a third that is nowhere in the log


def recorded(file: Path) -> tuple[dict[int, Any], dict[int, str]]:
    """What gloo_flight/job.py recorded: dumps and stacks by rank."""
    told = json.loads(file.read_text())
    dumps = {int(name.rpartition("_")[2]): one for name, one in told["dumps"].items()}
    stacks = {int(name.removeprefix("stacks-rank")[:-4]): one for name, one in told["stacks"].items()}
    return dumps, stacks


def flights() -> Iterator[Case]:
    for name, (reason, culprits) in FLIGHT_FAULTS.items():
        dumps, stacks = recorded(FLIGHTS / f"{name}.json")
        sources = [
            DumpSource(f"nccl_trace_rank_{rank}", json.dumps(told).encode()) for rank, told in dumps.items()
        ]
        read = {rank: stack for rank, text in stacks.items() if (stack := read_stack(text)) is not None}
        verdict = judge_dumps(read_dumps(sources, read))
        yield Case("gloo: flight recorders", name, Label({reason: name}, culprits), [of_flight(verdict)])


def logs() -> Iterator[Case]:
    group = "gloo: logs"
    for name, (cause, rank) in LOG_FAULTS.items():
        yield Case(group, name, Label({cause: name}, (rank,)), [of_logs(_judged(name))])
    label = Label({"rank-behind": "it sleeps"}, may_not_know=True)
    yield Case(group, UNTOLD, label, [of_logs(_judged(UNTOLD))])


def _judged(name: str) -> LogVerdict:
    file = LOGS / f"{name}.log"
    return judge_logs([LogSource(file.name, file.read_text().splitlines())])


def of_flight(verdict: FlightVerdict) -> Said:
    confidence = verdict.confidence if verdict.reason is not Reason.UNKNOWN else 0.0
    return Said(verdict.reason, confidence, verdict.text, verdict.culprits)


def of_logs(verdict: LogVerdict) -> Said:
    rank = verdict.who.rank
    return Said(verdict.cause, verdict.confidence, verdict.text, () if rank is None else (rank,))
