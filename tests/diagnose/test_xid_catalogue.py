"""The catalogue of Xids against NVIDIA's and what other tools say; sub-codes of NVLink; SXids."""

from __future__ import annotations

import csv
from typing import Final

import pytest
from bench.verdicts.corpora import NVIDIA_ASKS

from servers import require_corpus
from trilens.diagnose.xid.as_object import code_object
from trilens.diagnose.xid.explain import documented, explain
from trilens.diagnose.xid.sxid import sxid
from trilens.diagnose.xid.vendors import disagree, followed, opinions
from trilens.model.fault_lines import read_fault
from trilens.model.nvlink import nvlink_errors, sub_code
from trilens.model.packaged_yaml import packaged_yaml
from trilens.model.xid import (
    FOLLOWERS,
    NVLINK_XIDS,
    XIDS,
    Asks,
    Cordon,
    Fault,
    FaultKind,
    KernelFault,
)
from trilens.simulate.faults.xids import XIDS as SIMULATED

# What NVIDIA asks for at once, in our classes. A code of another class must say why in vendors.yml.
CLASSES: Final = {
    **NVIDIA_ASKS,
    "CONTACT_SUPPORT": Asks.LOOK,
    "UPDATE_SWFW": Asks.LOOK,
    "CHECK_UVM": Asks.LOOK,
    "WORKFLOW_XID_45": Asks.LOOK,
    "XID_154": Asks.LOOK,
    "WORKFLOW_NVLINK_ERR": Asks.LOOK,
    "WORKFLOW_NVLINK5_ERR": Asks.LOOK,
}


def corpus(name: str) -> list[dict[str, str]]:
    with (require_corpus("xid") / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def line(text: str) -> KernelFault:
    found = read_fault(text)
    assert isinstance(found, KernelFault), text
    return found


def test_every_code_of_the_corpora_is_there_and_is_of_nvidias_class_or_says_why_not() -> None:
    nvidia = {int(row["Code"]): row for row in corpus("nvidia_xid_catalog_2025-10.csv")}
    others = {int(row["code"]) for row in corpus("gpud_xid_details.csv")}
    others |= {int(row["xid"]) for row in corpus("nvsentinel_xid_mapping.csv")}
    assert set(XIDS) == set(nvidia) | others
    own = {
        code for code, row in nvidia.items() if XIDS[code].asks is not CLASSES.get(row["ImmediateResolution"])
    }
    assert {code for code in own if followed(code) is None} == set()
    assert own == {43, 48, 137, *range(162, 173)}  # the catalogue has nothing for the last eleven
    assert {code for code, row in nvidia.items() if row["Description"] == "Unused"} == {
        code for code, xid in XIDS.items() if xid.family == "unused"
    }


def test_what_others_say_is_told_as_they_say_it() -> None:
    for row in corpus("nvidia_xid_catalog_2025-10.csv"):
        (said,) = [one for one in opinions(int(row["Code"])) if one.vendor == "nvidia"]
        assert said.first == (row["ImmediateResolution"] or "none"), row
    for row in corpus("gpud_xid_details.csv"):
        (said,) = [one for one in opinions(int(row["code"])) if one.vendor == "gpud"]
        assert (said.first, said.second) == (
            row["event_type"].lower(),
            row["repair_actions"].replace("|", " ") or "none",
        ), row
    for row in corpus("nvsentinel_xid_mapping.csv"):
        (said,) = [one for one in opinions(int(row["xid"])) if one.vendor == "nvsentinel"]
        assert said.first == row["fatal"].lower(), row


def test_each_of_the_67_disagreements_says_whom_we_followed() -> None:
    gpud = {int(row["code"]): row["event_type"] == "Fatal" for row in corpus("gpud_xid_details.csv")}
    sentinel = {int(row["xid"]): row["fatal"] == "FATAL" for row in corpus("nvsentinel_xid_mapping.csv")}
    apart = {code for code in gpud.keys() & sentinel.keys() if gpud[code] != sentinel[code]}
    assert len(apart) == 67
    assert {code for code in XIDS if disagree(code)} == apart
    for code in apart:
        chosen = followed(code)
        assert chosen is not None, code
        assert chosen.why, code


def test_the_catalogue_is_whole() -> None:
    for code, xid in XIDS.items():
        assert all((xid.title, xid.means, xid.now, xid.later, xid.name)), code
        assert xid.follows <= XIDS.keys() - {code}, code
        assert "{" not in xid.title, code
    assert {45, 154} == FOLLOWERS
    assert {code for code, xid in XIDS.items() if xid.fault is Fault.LINK} | {137} >= NVLINK_XIDS


def test_the_simulator_breaks_what_the_catalogue_says_is_broken() -> None:
    for code, made in SIMULATED.items():
        asks = XIDS[code].asks
        assert made.breaks == (asks in (Asks.GPU_RESET, Asks.NODE_OUT)), code
        assert all(XIDS[after].follows_any or code in XIDS[after].follows for after in made.follows), code


def test_a_fault_of_a_program_never_closes_a_node() -> None:
    for code, xid in XIDS.items():
        if xid.fault is Fault.APPLICATION or xid.asks in (Asks.APPLICATION, Asks.NOTHING, Asks.LOOK):
            assert xid.cordon is Cordon.NO, code
    assert {code for code, xid in XIDS.items() if xid.cordon is Cordon.YES} == {48, 54, 79, 151, 167, 173}
    assert {XIDS[code].cordon for code in (13, 31, 43, 45, 94)} == {Cordon.NO}
    assert {XIDS[code].cordon for code in (62, 64, 95, 119)} == {Cordon.UNTIL_RESET}


def test_every_sub_code_of_nvidias_table_is_found_by_its_line() -> None:
    severities = {"Non-fatal": "nonfatal", "Fatal": "fatal", "Link Fatal": "link-fatal"}
    asks = {"IGNORE": Asks.NOTHING, "RESET_GPU": Asks.GPU_RESET, "XID_154_EVAL": Asks.LOOK}
    rows = corpus("nvidia_xid_nvlink_144-150_rules.csv")
    assert len(rows) == len(nvlink_errors())
    for row in rows:
        names = [row["Unit"], *row["Unit"].split("/")]
        for pattern, name in [(row["IntrinfoPatternV1"], one) for one in names] + [
            (row["IntrinfoPatternV2"], one) for one in names
        ]:
            first = int(pattern.replace("-", "0"), 2) | 0x0400_0000  # what the table does not look at is set
            told = (
                f"NVRM: Xid (PCI:0000:04:00): {row['Xid']}, {name} Fatal XC0 i0 Link 07 "
                f"(0x{first:08x} {row['ErrorStatus']} 0x00000000)"
            )
            sub = sub_code(line(told))
            assert sub is not None, told
            (error,) = sub.errors
            assert error.severity == severities[row["Severity"].rstrip("*?")], told
            assert error.asks is asks[row["Resolution"]], told
            assert (error.then is not None) == bool(row["Action2"]), told
            assert ("Xid 48" in error.here) == ("xid 48" in row["LocalRemote"].split("Remote")[0].lower()), (
                told
            )


def test_lines_of_the_corpus_get_their_sub_code() -> None:
    lines = (require_corpus("xid") / "xid_sxid_kernel_lines.txt").read_text(encoding="utf-8").splitlines()
    found = [one for text in lines if isinstance(one := read_fault(text), KernelFault)]
    coded = [one for one in found if one.kind is FaultKind.XID and one.code in range(144, 151)]
    subs = {one.text: sub_code(one) for one in coded}
    assert all(subs.values())
    unknown = {text.split(" ")[0] for text, sub in subs.items() if sub and not sub.errors}
    assert unknown == {"SAW_EGR", "SAW_MVB"}  # a unit, and a status, that the table does not have


@pytest.mark.parametrize(
    ("told", "asks", "reason"),
    [
        ("145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 0x0)", Asks.LOOK, None),
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x0)", Asks.GPU_RESET, 4),
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x026005c6 0x00000000 0x0)", Asks.NOTHING, 38),
        ("149, NETIR Fatal XC0 i0 Link -1 (0x000fe406", Asks.GPU_RESET, None),  # cut, and there is only one
        ("145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000101 0x0)", Asks.LOOK, None),  # two bits
        (
            "144, SAW_NEW Fatal XC0 i0 Link 00 (0x00000004 0x00000001 0x0)",
            Asks.GPU_RESET,
            None,
        ),  # by its word
        ("144, SAW_NEW Nonfatal XC0 i0 Link 00 (0x00000004 0x00000001 0x0)", Asks.LOOK, None),
    ],
)
def test_what_a_sub_code_asks_for(told: str, asks: Asks, reason: int | None) -> None:
    fault = line(f"NVRM: Xid (PCI:0008:01:00): {told}")
    sub = explain(fault).sub
    assert sub is not None
    assert (explain(fault).asks, sub.reason) == (asks, reason)


@pytest.mark.parametrize(
    ("action", "asks"),
    [
        ("0x1 (GPU Reset Required)", Asks.GPU_RESET),
        ("0x2 (Node Reboot Required)", Asks.NODE_OUT),
        ("0x4 (Drain and Reset)", Asks.GPU_RESET),
        ("0x0 (None)", Asks.NOTHING),
        ("0x9 (Something New)", Asks.LOOK),
    ],
)
def test_the_drivers_own_advice_is_taken(action: str, asks: Asks) -> None:
    told = (
        f"NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to {action}"
    )
    assert explain(line(told)).asks is asks


def test_sxids() -> None:
    failed, whole, corrected, other = sxid(20034), sxid(23005), sxid(11012), sxid(25003)
    assert failed is not None
    assert whole is not None
    assert corrected is not None
    assert other is not None
    assert [one.asks for one in (failed, whole, corrected, other)] == [
        Asks.GPU_RESET,
        Asks.NODE_OUT,
        Asks.NOTHING,
        Asks.LOOK,
    ]
    assert (other.unit, other.is_documented) == ("NVLIPT_LNK", False)
    fatal, spared = sxid(25003, is_fatal=True), sxid(20034, is_fatal=False)  # its line knows better
    assert fatal is not None
    assert spared is not None
    assert (fatal.asks, spared.asks) == (Asks.GPU_RESET, Asks.LOOK)
    assert sxid(9_999) is None
    assert sxid(27_000) is None


def test_no_code_is_in_two_places_of_the_tables() -> None:
    switches = packaged_yaml("trilens.diagnose.xid", "sxids.yml")
    codes = [code for listed in switches["codes"].values() for code in listed]
    assert len(codes) == len(set(codes))
    assert switches["codes"].keys() | {"unknown"} == switches["classes"].keys()
    assert switches["titles"].keys() <= set(codes)
    assert all(sxid(code) is not None for code in codes)
    vendors = packaged_yaml("trilens.diagnose.xid", "vendors.yml")
    chosen = [code for one in vendors["followed"] for code in one["codes"]]
    assert len(chosen) == len(set(chosen))
    assert set(chosen) <= XIDS.keys()


def test_a_code_that_nobody_documents_is_told_with_those_that_are() -> None:
    told = code_object(999, is_sxid=False)
    assert (told["known"], told["asks"], told["cordon"]) == (False, "look", "no")
    assert told["ranges"] == {"xid": [1, 173], "sxid": [10_000, 26_999]}
    assert told["nearest"] == [171, 172, 173]
    assert documented(0).nearest == (1, 2, 3)
    assert "Xids 1 to 173" in told["means"]
