"""Kernel logs: every shape of a line's beginning, which Xid is the root, and bad input."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest

from servers import require_corpus
from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.diagnose.xid.kernel_log import KernelText, read_kernel_logs
from trilens.diagnose.xid.report import judge_case, judge_kernel_logs
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.life import MembershipInterval
from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey
from trilens.model.xid import Asks, Cordon

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.diagnose.xid.report import XidReport

NOW_MS: Final = round(datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp() * 1000)
NEW_YEARS_EVE_MS: Final = round(datetime(2025, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp() * 1000)
A, B = "0000:9b:00", "0000:1b:00"
XID_79: Final = f"NVRM: Xid (PCI:{A}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def at(second: float, code: int, gpu: str = A, text: str = "", pid: int | None = None) -> str:
    whose = f"pid={pid}, name=python3, " if pid is not None else ""
    return f"[{1000 + second:12.6f}] NVRM: Xid (PCI:{gpu}): {code}, {whose}{text or 'text'}"


def judge(*lines: str, node: str = "n1") -> XidReport:
    return judge_kernel_logs([KernelText("kernel.log", lines, node)], NOW_MS)


def chains(report: XidReport) -> list[tuple[int | None, list[int | None]]]:
    return [
        (one.episode.root.fault.code, [follower.seen.fault.code for follower in one.episode.followers])
        for one in report.judged
    ]


@pytest.mark.parametrize(
    ("before", "node", "t_ms", "up_ms"),
    [
        ("", "", None, None),
        ("[Wed Dec 31 23:59:58 2025] ", "", NEW_YEARS_EVE_MS, None),  # dmesg -T
        ("[ 5678.901234] ", "", None, 5_678_901),  # dmesg
        ("kern  :err   : [ 5678.901234] ", "", None, 5_678_901),  # dmesg -x
        ("2025-12-31T23:59:58,250000+00:00 ", "", NEW_YEARS_EVE_MS + 250, None),  # dmesg --time-format iso
        ("Dec 31 23:59:58 gpu-7 kernel: ", "gpu-7", NEW_YEARS_EVE_MS, None),  # journalctl -k: no year
        ("Dec 31 23:59:58.123456 gpu-7 kernel: ", "gpu-7", NEW_YEARS_EVE_MS, None),
        ("2026-01-01T00:59:58+0100 gpu-7 kernel: ", "gpu-7", NEW_YEARS_EVE_MS, None),  # -o short-iso
        ("<3>Dec 31 23:59:58 gpu-7 kernel: [ 12.345678] ", "gpu-7", NEW_YEARS_EVE_MS, None),  # syslog
        (
            "<3>1 2025-12-31T23:59:58.003Z gpu-7 kernel - - - ",
            "gpu-7",
            NEW_YEARS_EVE_MS + 3,
            None,
        ),  # RFC 5424
        ("3,1234,5678901234,-;", "", None, 5_678_901),  # /dev/kmsg
        ("[Wed Foo 99 23:59:58 2025] ", "", None, None),  # no date after all
    ],
)
def test_when_and_where(before: str, node: str, t_ms: int | None, up_ms: int | None) -> None:
    (seen,) = read_kernel_logs([KernelText("x", [before + XID_79])], NOW_MS).seen
    assert (seen.fault.code, seen.node, seen.t_ms) == (79, node, t_ms)
    assert seen.at_ms == (t_ms if t_ms is not None else up_ms)


@pytest.mark.parametrize(
    ("lines", "expected", "asks"),
    [
        ([at(0, 48), at(0, 63), at(0, 94), at(1, 45), at(1, 154)], [(48, [63, 94, 45, 154])], Asks.NODE_OUT),
        ([at(0, 63), at(0.5, 48)], [(48, [63])], Asks.NODE_OUT),  # of one moment, in any order
        ([at(0, 45), at(0.1, 94)], [(94, [45])], Asks.APPLICATION),
        ([at(0, 31), at(1, 45)], [(31, [45])], Asks.APPLICATION),
        ([at(0, 74), at(2, 31), at(2, 43), at(3, 45)], [(74, [31, 43, 45])], Asks.LOOK),
        ([at(0, 119), at(6, 119, pid=7), at(9, 79)], [(119, [119, 79])], Asks.NODE_OUT),
        ([at(0, 79), at(6, 119), at(7, 154)], [(79, [119, 154])], Asks.NODE_OUT),
        ([at(0, 119), at(900, 119, pid=8)], [(119, [119])], Asks.GPU_RESET),  # broken until it is reset
        ([at(0, 48), at(900, 45)], [(48, []), (45, [])], Asks.NODE_OUT),  # too late to be its consequence
        ([at(0, 13, A), at(1, 31, B)], [(13, []), (31, [])], Asks.APPLICATION),  # two GPUs, two programs
        ([at(0, 79, A, pid=5), at(1, 45, B, pid=5)], [(79, [45])], Asks.NODE_OUT),  # one program with both
        ([at(0, 31, A, pid=5), at(1, 45, B, pid=6)], [(31, []), (45, [])], Asks.APPLICATION),
        ([at(0, 79, A), at(1, 74, B)], [(79, [74])], Asks.NODE_OUT),  # the link to a GPU that is gone
        ([at(0, 45), at(1, 154)], [(45, [154])], Asks.LOOK),  # nothing but followers
    ],
)
def test_which_is_the_root(lines: list[str], expected: list[tuple[int, list[int]]], asks: Asks) -> None:
    report = judge(*lines)
    assert chains(report) == expected
    assert report.judged[0].episode.asks is asks


def test_one_node_says_nothing_of_another() -> None:
    texts = [KernelText("a", [at(0, 48)], "n1"), KernelText("b", [at(1, 45)], "n2")]
    assert chains(judge_kernel_logs(texts, NOW_MS)) == [(48, []), (45, [])]


def test_a_machine_that_was_started_again_has_a_new_clock() -> None:
    assert chains(judge(at(0, 48), at(-500, 45))) == [(45, []), (48, [])]


def test_a_switch_that_fails_is_the_root_of_what_its_gpus_say() -> None:
    sxid = "[ 1000.000000] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    report = judge(sxid, at(1, 74, A), at(1, 74, B), at(2, 45, A))
    assert chains(report) == [(20034, [74, 74, 45])]
    assert report.judged[0].episode.root.fault.switch == 0
    assert report.judged[0].episode.cordon is Cordon.UNTIL_RESET


def test_the_end_of_a_link_that_blames_the_other_follows_it() -> None:
    taken_down = at(1, 149, B, "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000)")
    watchdog = at(0, 150, A, "MSE_WATCHDOG Fatal XC0 i0 Link 00 (0x00000000 0x00000000)")
    assert chains(judge(watchdog, taken_down)) == [(150, [149])]
    alone = judge(taken_down)
    assert chains(alone) == [(149, [])]
    assert alone.judged[0].episode.confidence == 0.6
    assert any("other end" in one.what for one in alone.missing)


def test_what_only_follows_is_never_told_as_the_root() -> None:
    report = judge(at(0, 45))
    (judged,) = report.judged
    assert judged.episode.confidence < 0.5
    assert judged.episode.cordon is Cordon.NO
    assert any("what Xid 45 follows" in one.what for one in report.missing)
    advised = judge(
        at(0, 154, text="GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
    )
    assert advised.judged[0].episode.cordon is Cordon.YES  # the driver's own advice
    assert advised.judged[0].episode.confidence < 0.5


def test_which_of_two_that_may_follow_each_other_is_less_sure() -> None:
    assert judge(at(0, 79), at(6, 154)).judged[0].episode.confidence == 0.95
    assert judge(at(0, 119), at(6, 79)).judged[0].episode.confidence == 0.75
    assert judge(at(0, 999)).judged[0].episode.confidence == 0.4


def test_a_real_log_of_xid_119() -> None:
    lines = (require_corpus("xid") / "dmesg-with-xid-119.log").read_text(encoding="utf-8").splitlines()
    report = judge(*lines, node="")
    (judged,) = report.judged
    root = judged.episode.root
    assert (root.fault.code, root.times, root.number, root.fault.process) == (119, 3, 3, "nvidia-smi")
    assert root.board is not None
    assert root.board == ("GPU-509665ad-b600-ac93-3616-d754b23d636d", "1650124014249")
    assert [one.seen.fault.process for one in judged.episode.followers] == ["cache_mgr_main", "gpud"]
    assert (report.faults, report.lines, judged.episode.asks) == (5, len(lines), Asks.GPU_RESET)
    assert any("held lines about PCI:0000:9b:00 back" in one.what for one in report.missing)


def test_every_line_of_the_corpus_has_its_place() -> None:
    lines = (require_corpus("xid") / "xid_sxid_kernel_lines.txt").read_text(encoding="utf-8").splitlines()
    report = judge(*lines, node="")
    told = sum(
        seen.times
        for one in report.judged
        for seen in (one.episode.root, *(follower.seen for follower in one.episode.followers))
    )
    assert (told, report.unreadable) == (report.faults, 6)
    assert report.faults + report.unreadable == len(lines)
    assert all(one.episode.confidence <= 0.6 for one in report.judged)  # there is not a time in it
    assert any("lines have no time" in one.what for one in report.missing)


def test_a_storm_is_one_fault_and_does_not_fill_memory() -> None:
    report = judge(*(at(second / 100, 31, pid=4) for second in range(5_000)))
    (judged,) = report.judged
    assert judged.episode.root.times == report.faults == 5_000


def test_the_same_code_with_another_sub_code_or_advice_is_another_fault() -> None:
    remap = "RLW_REMAP {} XC0 i0 Link 00 (0x00000004 {} 0x00000000)"
    told = [
        at(0, 145, text=remap.format("Nonfatal", "0x00000001")),
        at(1, 145, text=remap.format("Fatal", "0x00000040")),
        at(2, 154, text="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        at(
            3,
            154,
            text="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)",
        ),
    ]
    first, second = judge(*told).judged
    assert (first.episode.root.explained.asks, second.episode.root.explained.asks) == (
        Asks.LOOK,
        Asks.GPU_RESET,
    )
    assert first.episode.cordon is Cordon.YES  # by the last advice


def test_too_many_different_ones_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.diagnose.xid.kernel_log._MOST", 3)
    report = judge(*(at(second * 1000, 31) for second in range(5)))
    assert (len(report.judged), report.faults) == (3, 5)
    assert any("2 faults beyond the first 3" in one.what for one in report.missing)


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        ([], "the log is empty"),
        (["[    0.0] Linux version 6.8", "systemd[1]: Started."], "no line is of the NVIDIA driver"),
        (["[    1.0] NVRM: Xid (PCI:0000:9b:0"], "1 lines begin like an Xid and cannot be read"),
    ],
)
def test_logs_without_an_xid(lines: list[str], missing: str) -> None:
    report = judge(*lines)
    assert (report.judged, report.lines) == ([], len(lines))
    assert any(one.what.startswith(missing) for one in report.missing)


JOB = WorkloadKey("c", "ml", "batch", "Job", "train", "u-1")
POD = PodKey("c", "ml", "train-0", "u-2")


def event(t_ms: int, code: int, text: str) -> EventRecord:
    return EventRecord(
        "n1", str(code), t_ms, EventKind.XID, code, text, None, None, GpuUuid("GPU-1"), 3,
        "00000000:9B:00.0", 7, "python3", 5, (Victim("ml", "train-0", "u-2"),),
    )  # fmt: skip


def case(*logs: LogText) -> CaseFile:
    return CaseFile(
        CaseSubject(SubjectKind.NODE, "c", "", "n1"),
        NOW_MS - 3_600_000,
        NOW_MS,
        members=(MembershipInterval(Membership(POD, JOB), "n1", NOW_MS - 3_600_000),),
        events=(event(NOW_MS - 60_000, 94, "Contained"), event(NOW_MS - 59_000, 45, "Ch 00000010")),
        logs=logs,
    )


def test_a_bundle_tells_the_pod_and_the_workload(tmp_path: Path) -> None:
    write_bundle(case(), tmp_path / "x.zip")
    report = judge_case(read_bundle(tmp_path / "x.zip"))
    assert chains(report) == [(94, [45])]
    whose = report.judged[0].whose[0]
    assert (whose.uuid, whose.gpu, whose.rank) == ("GPU-1", 3, 5)
    assert [(one.namespace, one.pod, one.workload) for one in whose.victims] == [
        ("ml", "train-0", "ml/train")
    ]


def test_what_an_agent_told_of_a_switch_keeps_the_drivers_word(tmp_path: Path) -> None:
    told = replace(event(NOW_MS - 60_000, 25_003, "Fatal, Link 30 something"), kind=EventKind.SXID, pid=None)
    write_bundle(replace(case(), events=(told,)), tmp_path / "x.zip")
    (judged,) = judge_case(read_bundle(tmp_path / "x.zip")).judged
    assert (judged.episode.asks, judged.episode.root.fault.link) == (Asks.GPU_RESET, 30)


def test_the_log_in_a_bundle_goes_before_what_the_agent_told(tmp_path: Path) -> None:
    stamp = datetime.fromtimestamp((NOW_MS - 60_000) / 1000, UTC)
    line = (
        f"{stamp:%Y-%m-%dT%H:%M:%S}+00:00 n1 kernel: NVRM: Xid (PCI:{A}): 94, pid=7, name=python3, Contained"
    )
    write_bundle(case(LogText(LogKind.KERNEL, "kernel", (line,), node="n1")), tmp_path / "x.zip")
    report = judge_case(read_bundle(tmp_path / "x.zip"))
    assert chains(report) == [(94, [])]
    assert report.judged[0].whose[0].victims[0].workload == "ml/train"


@pytest.mark.parametrize(
    ("stamp", "is_known"),
    [
        ("2026-01-02T11:59:00+00:00", True),
        ("2026-01-02T11:58:00+00:00", False),  # another one, a minute before
        ("Fri Jan  2 03:59:00 2026", True),  # the machine's own time, eight hours behind
        ("Fri Jan  2 03:52:00 2026", False),
    ],
)
def test_the_time_of_a_log_without_a_zone_may_be_of_any(tmp_path: Path, stamp: str, is_known: bool) -> None:
    shown = stamp if "+" in stamp else f"[{stamp}]"
    line = f"{shown} NVRM: Xid (PCI:{A}): 94, pid=7, name=python3, Contained"
    write_bundle(case(LogText(LogKind.KERNEL, "kernel", (line,), node="n1")), tmp_path / "x.zip")
    report = judge_case(read_bundle(tmp_path / "x.zip"))
    assert bool(report.judged[0].whose) is is_known
