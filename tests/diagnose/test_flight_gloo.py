"""Real ranks over gloo with a fault each: recorded by gloo_flight/job.py, and one live."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from bench.verdicts.gloo import FLIGHT_FAULTS, FLIGHTS, recorded

from flight_dumps import judged
from trilens.diagnose.flight.flight_verdict import Reason

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("fault", sorted(FLIGHT_FAULTS))
def test_the_cause_of_a_real_fault_is_found(fault: str) -> None:
    dumps, stacks = recorded(FLIGHTS / f"{fault}.json")
    verdict = judged(dumps, stacks)
    assert (verdict.reason, verdict.culprits) == FLIGHT_FAULTS[fault]
    assert verdict.can_tell
    for one in verdict.doing:
        assert "/train/job.py" in one.text


def test_nothing_that_was_recorded_is_left_untried() -> None:
    assert {file.stem for file in FLIGHTS.glob("*.json")} == {*FLIGHT_FAULTS}


def test_what_gloo_does_not_record_makes_it_less_sure() -> None:
    """Without stacks rank 1, which waits in a receive, looks like rank 2, which sleeps."""
    dumps, _ = recorded(FLIGHTS / "waits_in_a_receive.json")
    verdict = judged(dumps)
    assert verdict.culprits == (1, 2)
    assert verdict.confidence < 0.8


def test_a_group_whose_ranks_gloo_does_not_list_leads_on() -> None:
    dumps, stacks = recorded(FLIGHTS / "group_in_between.json")
    verdict = judged(dumps, stacks)
    assert verdict.group.endswith(":tp")
    assert "for rank 2, which waits in all_reduce 2 of group tp" in verdict.chain[0]


def test_a_rank_that_sleeps_is_found_live(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "import job\n"
        "job.run('rank_sleeps', Path(sys.argv[2]), frames=False)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(FLIGHTS), str(tmp_path)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    from trilens.cli.dump_files import DumpFiles
    from trilens.diagnose.flight.cause import judge_dumps
    from trilens.diagnose.flight.reading import read_dumps

    files = DumpFiles([str(tmp_path)])
    verdict = judge_dumps(read_dumps(files.sources(), files.stacks))
    assert (verdict.reason, verdict.culprits, verdict.ranks) == (Reason.NEVER_ENTERED, (2,), 4)
    assert "job.py" in verdict.doing[0].text  # where it sleeps, by its stacks
