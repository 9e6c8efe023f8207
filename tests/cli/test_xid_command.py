"""`trilens xid`: what it prints of a code, a line and a log, and what it refuses."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from trilens.cli.main import app
from trilens.diagnose.bundle import write_bundle
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.model.errors import BundleError, ConfigError, IntakeError

if TYPE_CHECKING:
    from pathlib import Path

ECC = "Nov 15 10:00:00 gpu-7 kernel: NVRM: Xid (PCI:0000:9b:00): 48, pid=91, name=python3, DBE"
CLEANUP = "Nov 15 10:00:01 gpu-7 kernel: NVRM: Xid (PCI:0000:9b:00): 45, pid=91, name=python3, Ch 00000010"
NOBODY = "http://127.0.0.1:9"


def run(*arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, ["xid", *arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("code", ["63", "Xid 63", "xid-63", "XID:63"])
def test_a_code_is_explained_with_whom_we_followed(code: str) -> None:
    shown = run(code).splitlines()
    assert shown[0] == "Xid 63: a row remapping was recorded (INFOROM_DRAM_RETIREMENT_EVENT)"
    marked = {line[:10].strip(): line[10:] for line in shown[2:]}
    assert marked["node:"] == "leave it in service"
    assert marked["do:"].startswith("Nothing")
    assert "gpud: fatal, RebootSystem HardwareInspection; NVSentinel: nonfatal, IGNORE" in marked["says:"]
    assert marked["why:"].startswith("they disagree; NVIDIA's catalogue was followed.")


def test_a_code_as_an_object() -> None:
    told = json.loads(run("79", "--json"))
    assert (told["fault"], told["asks"], told["cordon"]) == ("hardware", "node-out", "yes")
    assert told["known"] is True
    assert told["disagree"] is False
    assert {one["vendor"] for one in told["vendors"]} == {"nvidia", "gpud", "nvsentinel"}


def test_the_sub_codes_of_nvlink_are_a_table() -> None:
    shown = run("150")
    assert "MSE_WATCHDOG  0x00000000" in shown
    assert json.loads(run("149", "--json"))["sub_codes"][0]["unit"] == "NETIR_INT"


def test_an_sxid_and_a_code_that_nobody_documents() -> None:
    assert run("20034").startswith("SXid 20034: a link failed while it was up (DLPL)")
    assert run("sxid 999").startswith("SXid 999: a code that is not documented")
    shown = run("999")
    assert "Documented are Xids 1 to 173, and SXids of switches 10000 to 26999." in shown
    assert "nearest are 171, 172, 173" in shown


def test_a_line_is_read_as_a_log_is() -> None:
    line = "NVRM: Xid (PCI:0008:01:00): 145, RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x00000040)"
    told = json.loads(run(line, "--json"))
    (episode,) = told["episodes"]
    assert (episode["root"]["code"], episode["root"]["pci"]) == (145, "00000008:01:00.0")
    assert (episode["asks"], episode["cordon"]) == ("gpu-reset", "until-reset")
    (error,) = episode["root"]["sub_code"]["errors"]
    assert (error["unit"], error["severity"], error["by"]) == ("RLW_REMAP", "fatal", "hardware")


def test_a_log_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "kern.log.gz").write_bytes(gzip.compress(f"{ECC}\n{CLEANUP}\n".encode()))
    for told in (
        run("--log", str(tmp_path), "--server", NOBODY, "--json"),
        run("--log", "-", "--server", NOBODY, "--json", stdin=f"{ECC}\n{CLEANUP}\n"),
    ):
        report = json.loads(told)
        (episode,) = report["episodes"]
        assert (episode["root"]["code"], [one["code"] for one in episode["follows"]]) == (48, [45])
        assert (episode["root"]["node"], episode["root"]["pid"]) == ("gpu-7", 91)
        assert (episode["cordon"], episode["confidence"]) == ("yes", 0.95)
        assert any(one["what"].startswith("which pods and workloads were hit") for one in report["missing"])


def test_the_text_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(f"{ECC}\n{CLEANUP}\n{CLEANUP}\n", encoding="utf-8")
    shown = run("--log", str(log), "--server", NOBODY).splitlines()
    assert shown[0] == "Xid 48: double-bit ECC error (hardware, 95% sure)"
    assert "of gpu-7" in shown[1]
    assert "    by:   python3[91]" in shown
    assert "    then: Xid 45 (work was removed because of an earlier error), 2 times" in shown
    assert "    node: cordon it: no new work until it was rebooted or repaired" in shown
    alone = run("--log", "-", "--server", NOBODY, stdin=f"{CLEANUP}\n").splitlines()
    assert alone[0] == "Xid 45: work was removed because of an earlier error (what it follows is not here)"
    assert run("NVRM: Xid (PCI:0000:9b:00): 999, what").startswith("cannot tell; perhaps Xid 999: ")
    assert "no Xid, SXid or NVLink fault in 1 lines" in run("--log", "-", stdin="hello\n")


def test_a_log_in_a_bundle(tmp_path: Path) -> None:
    logs = (LogText(LogKind.KERNEL, "kernel", (ECC, CLEANUP), node="gpu-7"),)
    case = CaseFile(CaseSubject(SubjectKind.NODE, "c", "", "gpu-7"), 0, 1_800_000_000_000, logs=logs)
    write_bundle(case, tmp_path / "case.zip")
    (episode,) = json.loads(run("--bundle", str(tmp_path / "case.zip"), "--json"))["episodes"]
    assert episode["root"]["code"] == 48


def test_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF\0\0\0")
    for error, arguments in (
        (ConfigError, []),
        (ConfigError, ["79", "--log", "x"]),
        (ConfigError, ["hello"]),
        (ConfigError, ["79.5"]),
        (ConfigError, ["--log", str(tmp_path / "none.log")]),
        (IntakeError, ["--log", str(tmp_path / "core")]),
        (BundleError, ["--bundle", str(tmp_path / "core")]),
    ):
        with pytest.raises(error):
            run(*arguments)
