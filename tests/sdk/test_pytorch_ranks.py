"""Two ranks of real PyTorch on gloo: the same gradients with and without `watch`, and where they wait for
each other."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent
RANKS = (0, 1)

ALONE = ["forward", "backward", "optimizer"]
TOGETHER = ["forward", "backward", "grad_sync", "optimizer"]
WAYS = {
    "ddp": [TOGETHER] * 3,
    "ddp_inner": [TOGETHER] * 3,
    "ddp_accumulated": [TOGETHER],
    "fsdp2": [TOGETHER] * 3,
    "fsdp2_watched_first": [TOGETHER],
    "fsdp1": [TOGETHER] * 3,
    "gpipe": [ALONE] * 2,
    "1f1b": [ALONE] * 2,
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    source = TESTS.parent / "src"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{source}{os.pathsep}{TESTS}"}
    program = [sys.executable, str(TESTS / "training_ranks.py"), str(folder)]
    subprocess.run(program, env=environment, check=True, timeout=120)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in RANKS]


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_the_same_to_the_bit(answers: list[dict[str, Any]], way: str) -> None:
    for answer in answers:
        without, watched = answer[way]["without"], answer[way]["with"]
        assert watched["digest"] == without["digest"]
        assert watched["lost"] == {}


@pytest.mark.parametrize("way", WAYS)
def test_phases_are_found(answers: list[dict[str, Any]], way: str) -> None:
    for answer in answers:
        assert answer[way]["with"]["phases"] == WAYS[way]


@pytest.mark.parametrize("way", WAYS)
def test_not_one_operation_is_added(answers: list[dict[str, Any]], way: str) -> None:
    """Among them would be any that reads a value back, and so waits for a device."""
    for answer in answers:
        assert answer[way]["with"]["operations"] == answer[way]["without"]["operations"]


def test_a_users_communication_hook_stays(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        assert answer["ddp"]["with"]["calls"] == answer["ddp"]["without"]["calls"] > 0


def test_grad_sync_is_where_ddp_waits(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        order = answer["ddp_order"]["with"]["order"]
        began, ended = order.index("grad_sync"), order.index("end of grad_sync")
        assert order.index("communication begins") < order.index("end of backward") < began
        assert began < order.index("communication ends") < ended < order.index("optimizer")


def test_a_backward_that_does_not_synchronise_has_no_such_phase(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        order = answer["ddp_accumulated"]["with"]["order"]
        assert order.count("backward") == 2
        assert order.count("grad_sync") == 1


@pytest.mark.parametrize("way", ["fsdp1", "fsdp2", "fsdp2_watched_first"])
def test_grad_sync_is_where_fsdp_waits(answers: list[dict[str, Any]], way: str) -> None:
    for answer in answers:
        order = [what for what in answer[way]["with"]["order"] if "sync" in what or "waits" in what]
        assert order == ["grad_sync", "FSDP waits", "end of grad_sync"] * len(WAYS[way])


@pytest.mark.parametrize("way", ["gpipe", "1f1b"])
def test_each_microbatch_of_a_pipeline_is_seen(answers: list[dict[str, Any]], way: str) -> None:
    for answer in answers:
        order = answer[way]["with"]["order"]
        last_step = order[order.index("optimizer") :]
        assert last_step.count("forward") == 4
        assert last_step.count("backward") == 4
