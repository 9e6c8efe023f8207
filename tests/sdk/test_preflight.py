"""Preflights: real ranks on gloo, what their checks say of good and bad machines, and what is slow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from servers import free_port
from trilens.cli.preflight import _fitting, app
from trilens.sdk.distributed import preflight
from trilens.sdk.distributed.clock import ClockOffset
from trilens.sdk.distributed.preflight.baseline import KEPT, Baseline, recall, remember
from trilens.sdk.distributed.preflight.checks import check_facts, names_interface
from trilens.sdk.distributed.preflight.facts import Gpu, Interface, RankFacts, _gpu
from trilens.sdk.distributed.preflight.measure import AllReduce, Link, rounds_of, tournament
from trilens.sdk.distributed.preflight.report import RankResult, Report, judge, node_results, summary_of
from trilens.sdk.distributed.preflight.slow import slow_ends, slow_links, slow_ones
from trilens.sdk.recorder import MAX_ARTIFACT_BYTES
from trilens_process import TRILENS, clean_environment, server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.sdk.distributed.preflight.checks import Finding

GIB = 1 << 30


# -- the machines --


def rank(number: int, **different: Any) -> RankFacts:
    facts = RankFacts(
        rank=number,
        local_rank=number % 2,
        node=f"node-{number // 2}",
        machine=f"kernel-{number // 2}",
        versions={"python": "3.12.1", "torch": "2.13", "cuda": "13.0", "nccl": "2.27.5", "driver": "580.1"},
        gpu=Gpu("H100", f"GPU-{number}", 80 * GIB, 79 * GIB, 0, False),
        shared_memory_bytes=64 * GIB,
        locked_memory_bytes=-1,
        open_files=1 << 20,
        settings={"NCCL_SOCKET_IFNAME": "eth"},
        interfaces=(Interface("eth0", 9000, True), Interface("lo", 65536, True)),
        interface="eth0",
    )
    return replace(facts, **different)


def found(*facts: RankFacts) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(one.check, one.level.value, one.ranks) for one in check_facts(facts)]


def test_machines_that_are_alike_and_well_have_no_finding() -> None:
    assert found(*(rank(number) for number in range(8))) == []


@pytest.mark.parametrize(
    ("different", "check", "level"),
    [
        ({"gpu": None, "gpu_trouble": "lost"}, "gpu", "fail"),
        ({"gpu": Gpu("H100", "GPU-3", 80 * GIB, 20 * GIB)}, "gpu-memory", "fail"),
        ({"gpu": Gpu("H100", "GPU-3", 80 * GIB, 80 * GIB, 2)}, "gpu-ecc", "fail"),
        ({"gpu": Gpu("H100", "GPU-3", 80 * GIB, 80 * GIB, 0, True)}, "gpu-ecc", "fail"),
        ({"versions": {"nccl": "2.26.2"}}, "versions", "fail"),
        ({"versions": {"driver": "570.0"}}, "versions", "warn"),
        ({"shared_memory_bytes": 64 << 20}, "shared-memory", "fail"),
        ({"open_files": 1024}, "open-files", "warn"),
        ({"settings": {"NCCL_SOCKET_IFNAME": "eth", "NCCL_P2P_LEVEL": "SYS"}}, "settings", "fail"),
        ({"settings": {"NCCL_SOCKET_IFNAME": "eth,ib"}}, "settings", "fail"),
        ({"interfaces": (Interface("eth0", 1500, True),)}, "mtu", "warn"),
        ({"interfaces": (Interface("eth0", 9000, False),)}, "interface", "fail"),
        ({"name_trouble": "node-1 does not resolve"}, "name", "warn"),
        (
            {
                "interfaces": (Interface("eth0", 9000, True), Interface("ib0", 4092, True)),
                "locked_memory_bytes": 65536,
            },
            "locked-memory",
            "fail",
        ),
    ],
    ids=[
        "gpu-gone",
        "memory-taken",
        "ecc",
        "rows",
        "nccl-version",
        "driver-version",
        "shm",
        "files",
        "setting-of-one",
        "setting-differs",
        "mtu",
        "interface-down",
        "name",
        "memlock",
    ],
)
def test_the_rank_that_is_different_is_named(different: dict[str, Any], check: str, level: str) -> None:
    ranks = [rank(number) for number in range(6)]
    ranks[3] = replace(ranks[3], **different)
    assert found(*ranks) == [(check, level, (3,))]


def test_what_is_not_known_is_not_a_finding() -> None:
    unknown = rank(0, versions={}, shared_memory_bytes=None, open_files=None, locked_memory_bytes=None)
    assert found(replace(unknown, gpu=Gpu("H100", None, GIB, GIB)), rank(1)) == []


def test_two_ranks_on_one_gpu_are_named() -> None:
    same = Gpu("H100", "GPU-0", 80 * GIB, 80 * GIB)
    assert found(rank(0, gpu=same), rank(1, gpu=same)) == [("gpu", "fail", (0, 1))]


def test_a_gpu_that_is_gone_is_named_though_the_others_then_measure_without_gpus() -> None:
    results = results_of({})
    results[5] = replace(results[5], facts=rank(5, gpu=None, gpu_trouble="local rank 1 has no GPU"))
    report = replace(report_of(results), backend="gloo", device="cpu")
    (finding,) = judge(report, compare=False)
    assert (finding.check, finding.text, finding.ranks) == ("gpu", "local rank 1 has no GPU", (5,))
    assert not replace(report, findings=(finding,)).holds


def test_machines_without_any_gpu_may_be_meant_so() -> None:
    assert found(rank(0, gpu=None), rank(1, gpu=None)) == []
    blind = "this PyTorch is built for CUDA but sees no GPU"
    assert found(rank(0, gpu=None, gpu_trouble=blind), rank(1, gpu=None, gpu_trouble=blind)) == [
        ("gpu", "warn", (0, 1))
    ]


class OneGpu:
    """PyTorch on a machine, or for a rank, with a single GPU."""

    class cuda:  # noqa: N801 - as it is called there
        is_available = staticmethod(lambda: True)
        device_count = staticmethod(lambda: 1)
        mem_get_info = staticmethod(lambda index: (GIB, 2 * GIB))
        get_device_properties = staticmethod(lambda index: SimpleNamespace(name=f"H100 {index}", uuid="a-b"))


def test_a_rank_that_is_shown_only_its_own_gpu_uses_that() -> None:
    gpu, trouble = _gpu(OneGpu, local_rank=3)
    assert gpu is not None
    assert (gpu.name, gpu.index, trouble) == ("H100 0", 0, None)


def test_a_result_of_many_ranks_is_kept_as_far_as_it_fits() -> None:
    told = {"holds": True, "nodes": ["n"], "results": ["r"], "links": ["l" * MAX_ARTIFACT_BYTES]}
    assert json.loads(_fitting(told)) == {**told, "links": None}


def test_settings_left_behind_are_named_with_what_they_cost() -> None:
    left = {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_IB_DISABLE": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    findings = check_facts([rank(0, settings=left), rank(1, settings=left)])
    assert [one.text.split(":")[0] for one in findings] == [
        "NCCL_P2P_DISABLE is set",
        "NCCL_DEBUG writes a log that slows the start",
    ]


def test_interfaces_are_named_as_nccl_reads_them() -> None:
    assert names_interface("eth", "eth0")
    assert not names_interface("=eth", "eth0")
    assert names_interface("=eth0,eth1", "eth1")
    assert names_interface("^docker,lo", "eth0")
    assert not names_interface("^docker,lo", "lo")


# -- what is slow --


@given(st.integers(2, 41))
def test_in_a_tournament_everyone_meets_everyone_once(players: int) -> None:
    rounds = tournament(range(players))
    for pairs in rounds:
        busy = [player for pair in pairs for player in pair]
        assert len(busy) == len(set(busy))
    assert sorted(pair for pairs in rounds for pair in pairs) == [
        (a, b) for a in range(players) for b in range(a + 1, players)
    ]


def test_ranks_of_equal_place_on_two_nodes_are_paired() -> None:
    assert rounds_of(["a", "a", "b", "b"]) == [[(0, 2), (1, 3)]]
    assert len(rounds_of(["a", "b", "c", "d"])) == 3
    assert rounds_of(["a", "a", "a"]) == tournament(range(3))


def test_one_of_many_that_is_slow_is_found_and_a_spread_is_not() -> None:
    assert slow_ones({0: 100.0, 1: 98.0, 2: 55.0, 3: 101.0}) == {2: pytest.approx(0.5556, abs=1e-3)}
    assert slow_ones({0: 100.0, 1: 80.0, 2: 60.0, 3: 120.0, 4: 140.0}) == {}
    assert slow_ones({0: 100.0, 1: 40.0}) == {1: 0.4}
    assert slow_ones({0: 5.0}) == {}


def test_an_end_is_slow_when_its_best_link_is_and_a_link_when_its_ends_are_not() -> None:
    links = {(a, b): 10.0 for a in range(6) for b in range(a + 1, 6)}
    assert (slow_ends(links), slow_links(links)) == ({}, {})
    bad_end = {ends: 3.0 if 4 in ends else speed for ends, speed in links.items()}
    assert (slow_ends(bad_end), slow_links(bad_end)) == ({4: 0.3}, {})
    bad_link = {**links, (1, 2): 3.0}
    assert (slow_ends(bad_link), slow_links(bad_link)) == ({}, {(1, 2): 0.3})


def report_of(results: Sequence[RankResult], *, bus: float = 300e9) -> Report:
    return Report(
        t_ms=1,
        world_size=len(results),
        backend="nccl",
        device="H100",
        nodes=node_results(results),
        all_reduce=(AllReduce(GIB, 0.005, bus),),
        links=tuple(link for one in results for link in one.links),
        links_left_out=0,
        results=tuple(results),
    )


def results_of(speed: dict[tuple[int, int], float], *, baseline: Baseline | None = None) -> list[RankResult]:
    """Eight ranks on four nodes; each node reaches another at 50 GB/s by default."""
    return [
        RankResult(
            rank(number),
            ClockOffset(0, 0),
            900e12,
            tuple(
                Link(number, other, speed.get((number // 2, other // 2), 50e9))
                for other in range(number + 2 - number % 2, 8)
                if other % 2 == number % 2
            ),
            baseline or Baseline(),
        )
        for number in range(8)
    ]


def texts(findings: Sequence[Finding]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.text, one.nodes) for one in findings]


def test_a_slow_node_and_a_slow_link_are_named() -> None:
    assert judge(report_of(results_of({})), compare=True) == ()
    slow_node = results_of({(0, 2): 10e9, (1, 2): 10e9, (2, 3): 10e9})
    assert texts(judge(report_of(slow_node), compare=False)) == [
        ("reaches every other node at no more than 20% of the usual speed", ("node-2",))
    ]
    slow_link = results_of({(0, 3): 10e9})
    assert texts(judge(report_of(slow_link), compare=False)) == [
        ("node-0 and node-3 reach each other at 20% of the usual speed", ("node-0", "node-3"))
    ]


def test_a_clock_that_is_wrong_is_named() -> None:
    results = results_of({})
    results[5] = replace(results[5], clock=ClockOffset(-2_000_000, 300))
    (finding,) = judge(report_of(results), compare=False)
    assert (finding.text, finding.ranks) == ("the clock is 2.000 s ahead of rank 0's", (5,))


def test_machines_remember_and_a_later_slowdown_is_seen(tmp_path: Path) -> None:
    before = report_of(results_of({}))
    for node in ("node-0", "node-2"):
        remember(tmp_path, node, summary_of(before))
    told = recall(tmp_path, "node-2", world_size=8, backend="nccl", device="H100")
    assert told == Baseline(1, 900e12, 50e9, 300e9)
    assert recall(tmp_path, "node-2", world_size=16, backend="nccl", device="H100") == Baseline()
    assert recall(tmp_path, "elsewhere", world_size=8, backend="nccl", device="H100") == Baseline()

    all_slower = {(a, b): 30e9 for a in range(4) for b in range(4)}  # nothing to compare with but the past
    later = report_of(results_of(all_slower, baseline=told), bus=150e9)
    assert judge(later, compare=False) == ()
    assert texts(judge(later, compare=True)) == [
        *(("reaches others at 60% of its speed in earlier preflights", (f"node-{n}",)) for n in range(4)),
        ("the all-reduce over 8 ranks runs at 50% of its speed before", ()),
    ]


def test_what_is_remembered_is_bounded_and_a_broken_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "node-0.jsonl").write_text('{"t_ms"\n' * KEPT)
    remember(tmp_path, "node-0", summary_of(report_of(results_of({}))))
    assert len((tmp_path / "node-0.jsonl").read_text().splitlines()) == KEPT
    assert recall(tmp_path, "node-0", world_size=8, backend="nccl", device="H100").times == 1


# -- real ranks --


def surroundings(folder: Path, **extra: str) -> dict[str, str]:
    return clean_environment(
        HOME=str(folder), XDG_STATE_HOME="", OMP_NUM_THREADS="1", TRILENS_SERVER="http://127.0.0.1:1", **extra
    )


def test_alone_it_starts_ranks_and_prints_a_table(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*TRILENS, "preflight", "--processes", "1", "--no-send", "--time", "5"],
        env=surroundings(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode in (0, 1), ran.stderr  # little shared memory, as in a container, is a finding
    assert ran.stdout.startswith("1 rank, gloo on cpu")
    remembered = tmp_path / ".local/state/trilens/preflight"
    assert str(remembered) in ran.stdout
    ((line,),) = [file.read_text().splitlines() for file in remembered.iterdir()]
    assert json.loads(line)["bus_bytes_per_s"] is None  # there is nobody to reach


def test_a_slow_rank_on_another_node_is_named_and_the_server_keeps_it(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("preflight_slow_rank.py"))
    (said := tmp_path / "said").mkdir()
    with server(tmp_path) as (url, _):
        ran = subprocess.run(
            [sys.executable, script, str(said), "preflight", "--json", "--time", "5", "--server", url],
            env=surroundings(tmp_path, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())),
            capture_output=True,
            text=True,
            timeout=120,
        )
        history = [
            CliRunner().invoke(app, ["history", "--server", url, *arguments])
            for arguments in (["--json"], ["--node", "node-1"], ["--node", "elsewhere", "--json"])
        ]
    assert ran.returncode == 1, ran.stderr
    assert (said / "exit code of rank 1").read_text() == "0"
    told = json.loads((said / "0").read_text())
    assert (said / "1").read_text() == ""
    assert told["schema"] == "trilens.preflight/1"
    assert told["holds"] is False
    assert told["bus_bytes_per_s"] > 0
    slow = [one for one in told["findings"] if one["check"] == "compute"]
    assert [(one["level"], one["ranks"], one["nodes"]) for one in slow] == [("fail", [1], ["node-1"])]
    (link,) = told["links"]
    assert (link["a"], link["b"]) == (0, 1)
    remembered = tmp_path / ".local/state/trilens/preflight"
    assert sorted(file.name for file in remembered.iterdir()) == ["node-0.jsonl", "node-1.jsonl"]
    assert [one["rank"] for one in (result["facts"] for result in told["results"])] == [0, 1]
    assert told["results"][1]["clock"] == {"offset_us": 0, "uncertainty_us": 0}
    kept, table, other = (one.stdout for one in history)
    assert [(one["node"], one["ranks"]) for one in json.loads(kept)] == [("node-0", [0]), ("node-1", [1])]
    assert {one["link_bytes_per_s"] for one in json.loads(kept)} == {link["bytes_per_s"]}
    assert "node-1" in table
    assert "node-0" not in table
    assert other == "[]\n"


def test_every_check_is_documented() -> None:
    written = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
    folder = Path(preflight.__file__).parent
    checks = {
        name
        for file in ("checks.py", "report.py")
        for name in re.findall(
            r'(?:Finding|_finding)\(\s*"([a-z-]+)"', (folder / file).read_text(encoding="utf-8")
        )
    }
    assert len(checks) > 8
    for check in checks:
        assert f"`{check}`" in written, check


def test_every_metric_is_documented() -> None:
    written = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")
    folder = Path(preflight.__file__).parents[1]
    metrics = {
        name
        for file in folder.glob("*.py")
        for name in re.findall(r'"(trilens_[a-z_]+)"', file.read_text(encoding="utf-8"))
    }
    assert len(metrics) == 6
    for metric in metrics:
        assert f"`{metric}" in written, metric
