"""Xid, SXid and NVLink lines, in every spelling that is known."""

from __future__ import annotations

import re

import pytest
from recorded_nvml import FIXTURES

from servers import require_corpus
from trilens.model.fault_lines import UnreadableFault, read_fault
from trilens.model.pci import PciAddress
from trilens.model.xid import NVLINK_XIDS, XIDS, Asks, FaultKind, KernelFault


def fault(line: str) -> KernelFault:
    found = read_fault(line)
    assert isinstance(found, KernelFault), line
    return found


def test_the_line_of_a_real_fault() -> None:
    line = (FIXTURES / "h200_kmsg.txt").read_text(encoding="utf-8").splitlines()[-1]
    found = fault(line)
    assert (found.kind, found.code, found.pid, found.process) == (FaultKind.XID, 31, 523, "python3")
    assert found.pci == PciAddress(0, 0, 6)
    assert str(found.pci) == "00000000:00:06.0"
    assert found.text.startswith("channel 0x0000001e, intr 00000000. MMU Fault: ENGINE GRAPHICS")


def test_nothing_else_in_a_real_log_is_taken_for_a_fault() -> None:
    lines = (FIXTURES / "h200_kmsg.txt").read_text(encoding="utf-8").splitlines()
    assert [read_fault(line) for line in lines[:-1]] == [None] * (len(lines) - 1)


def test_every_line_of_the_corpus_with_a_code_is_read() -> None:
    lines = (require_corpus("xid") / "xid_sxid_kernel_lines.txt").read_text(encoding="utf-8").splitlines()
    unreadable = 0
    for line in filter(None, lines):
        # Told apart from what is read by looking for its parts one by one, not by the same expression.
        code = re.search(r"\): (\d+),", line)
        if code is None:
            assert isinstance(read_fault(line), UnreadableFault), line
            unreadable += 1
            continue
        found = fault(line)
        assert found.code == int(code[1]), line
        assert found.kind is (FaultKind.SXID if "SXid" in line else FaultKind.XID), line
        place = re.search(r"\((?:PCI:)?([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})", line)
        assert place is not None
        assert found.pci == PciAddress(*(int(part, 16) for part in place.groups())), line
        pid = re.search(r"pid=(\d+)", line)
        assert found.pid == (int(pid[1]) if pid else None), line
        name = re.search(r"name=([^,<]+),", line)
        assert found.process == (name[1] if name else None), line
        assert found.text, line
        assert line.rstrip().endswith(found.text), line
        link = re.search(r"Link (\d+)", line)
        assert found.link == (int(link[1]) if link else None), line
        if " Link " in line:
            assert found.fatal is not bool(re.search("non-?fatal", line, re.IGNORECASE)), line
    assert unreadable == 6


def test_a_real_log_with_xid_119() -> None:
    lines = (require_corpus("xid") / "dmesg-with-xid-119.log").read_text(encoding="utf-8").splitlines()
    faults = [found for line in lines if (found := read_fault(line)) is not None]
    assert [(found.code, found.pid, found.process) for found in faults if isinstance(found, KernelFault)] == [
        (119, 2024380, "nvidia-smi"),
        (119, 2024380, "nvidia-smi"),
        (119, 2024380, "nvidia-smi"),
        (119, 1263500, "cache_mgr_main"),
        (119, 1240590, "gpud"),
    ]
    assert len(faults) == 5
    first = faults[0]
    assert isinstance(first, KernelFault)
    assert first.text.startswith("Timeout after 6s of waiting for RPC response from GPU4 GSP!")
    assert first.pci == PciAddress(0, 0x9B, 0)


def test_a_mig_instance_is_named() -> None:
    line = "NVRM: Xid (PCI:0000:41:00 GPU-I:05 GPU-CI:01): 95, pid=77, name=python3, Uncontained ECC error"
    found = fault(line)
    assert (found.code, found.gpu_instance, found.compute_instance, found.pid) == (95, 5, 1, 77)


def test_what_is_unknown_stays_unknown() -> None:
    found = fault(
        "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )
    assert (found.pid, found.process, found.text) == (None, None, "GPU has fallen off the bus.")
    assert (found.link, found.fatal) == (None, None)


def test_an_nvlink_error_of_a_gpu_names_its_link() -> None:
    line = "NVRM: Xid (PCI:0000:45:00): 74, pid=7, name=x, NVLink: fatal error detected on link 3(0x0, 0x0)"
    found = fault(line)
    assert (found.code, found.link, found.fatal) == (74, 3, True)


@pytest.mark.parametrize(
    ("line", "switch", "pci"),
    [
        ("nvidia-nvswitch2: NVLink link 14 training failed", 2, None),
        ("NVRM: GPU 0000:1b:00.0: NVLink error on link 14: down", None, PciAddress(0, 0x1B, 0)),
    ],
)
def test_a_complaint_about_a_link_without_a_code(
    line: str, switch: int | None, pci: PciAddress | None
) -> None:
    found = fault(line)
    assert (found.kind, found.code, found.link) == (FaultKind.NVLINK, None, 14)
    assert (found.switch, found.pci) == (switch, pci)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "eth0: link 1 down",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 240",
        "NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:9b:00 (printing 1 of every 30).",
    ],
)
def test_other_lines_are_passed_over(line: str) -> None:
    assert read_fault(line) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0000:9b:00", PciAddress(0, 0x9B, 0)),
        ("PCI:0008:01:00", PciAddress(8, 1, 0)),
        ("00000000:9B:00.0", PciAddress(0, 0x9B, 0)),
        ("9b:00.0", PciAddress(0, 0x9B, 0)),
        ("invalid", None),
        ("", None),
    ],
)
def test_places_on_the_bus(text: str, place: PciAddress | None) -> None:
    assert PciAddress.parse(text) == place


def test_the_traps_of_the_catalogue() -> None:
    assert {XIDS[code].asks for code in (13, 31, 94)} == {Asks.APPLICATION}
    assert {XIDS[code].asks for code in (62, 64, 95, 109, 119, 120, 140, 143)} == {Asks.GPU_RESET}
    assert {XIDS[code].asks for code in (48, 79)} == {Asks.NODE_OUT}
    assert XIDS[63].asks is Asks.NOTHING  # it records a remapping; 64 is the failure
    assert {XIDS[code].asks for code in (45, 154)} == {Asks.LOOK}
    assert XIDS.keys() >= NVLINK_XIDS
