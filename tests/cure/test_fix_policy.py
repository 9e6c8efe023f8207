"""What a policy may say, what each deed changes, and that a program's fault never closes a node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_here import trilens_here
from trilens.collect.kubernetes.writes import eviction
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.cure.changes import check_target, undo_deed
from trilens.diagnose.cure.faults import closes_node
from trilens.diagnose.cure.proposals import REMEDIES, proposals
from trilens.diagnose.tree import all_trees
from trilens.model.errors import ConfigError, RequestError
from trilens.model.event import EventKind, EventRecord
from trilens.model.finding import Subject
from trilens.model.fix import Deed, Fix, FixState, FixTarget
from trilens.model.verdict import Layer, Verdict
from trilens.model.workload import PodKey
from trilens.model.xid import XIDS, Asks, Fault
from trilens.settings.cure import CureSettings, read_policy

DEPLOY = Path(__file__).parents[2] / "deploy" / "fix"
NODE = FixTarget("lab", "", "Node", "", "gpu-7")
POD = FixTarget("lab", "", "Pod", "ml", "llm-0")
APPLICATION = (13, 31, 43, 45, 94)  # what everybody knows for a program's
NOON_MS = 1_794_744_000_000  # 2026-11-15T12:00Z, a Sunday


def told(deed: Deed, target: FixTarget, **more: Any) -> Fix:
    return replace(Fix("f1", NOON_MS, deed, target, "ann", "why", "", FixState.BEGUN), **more)


def policy(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return read_policy(CureSettings(policy=file))


def test_a_programs_fault_never_closes_a_node(tmp_path: Path) -> None:
    """Over the whole catalogue: not by a proposal, and no policy may approve it."""
    closing = {code for code in XIDS if closes_node(code)}
    assert closing.isdisjoint(APPLICATION)
    assert {48, 79} <= closing
    assert [code for code in closing if XIDS[code].fault is Fault.APPLICATION] == []
    for code, meaning in XIDS.items():
        assert (code in closing) == (meaning.asks in (Asks.NODE_OUT, Asks.GPU_RESET)), code
        cordons = [one for one in proposals(_case(code), []) if one.deed is Deed.CORDON]
        assert bool(cordons) == (code in closing), code
        text = f"allow: [{{do: [cordon]}}]\napproved: [xid-{code}]\n"
        if code in closing:
            assert policy(tmp_path, text).approved_classes == {f"xid-{code}"}
        else:
            with pytest.raises(ConfigError, match="never closes a node"):
                policy(tmp_path, text)
    assert not closes_node(None)
    assert not closes_node(9999)  # an unknown one


def _case(code: int) -> CaseFile:
    event = EventRecord(
        "gpu-7", "e1", NOON_MS, EventKind.XID, code, "text", None, None, None, 0, None, None, None, None
    )
    subject = CaseSubject(SubjectKind.NODE, "lab", "", "gpu-7")
    return CaseFile(subject, NOON_MS - 3_600_000, NOON_MS, "0", events=(event,))


def test_the_table_of_remedies_names_causes_that_there_are() -> None:
    causes = {end.cause for tree in all_trees().values() for end in tree.ends.values()}
    assert set(REMEDIES) - causes == set()
    layers = {end.cause: end.layer for tree in all_trees().values() for end in tree.ends.values()}
    for cause, remedies in REMEDIES.items():
        for one in remedies:
            assert one["to"] in ("node", "pod", "workload")
            if Deed(one["do"]) is Deed.CORDON:
                assert layers[cause] in (Layer.GPU, Layer.NODE, Layer.FABRIC), cause


def test_a_guess_proposes_nothing_and_a_verdict_what_the_table_has() -> None:
    pod = PodKey("lab", "ml", "llm-0", "u1")
    verdict = Verdict(
        "driver-not-loaded", Layer.NODE, "no driver", 0.9, subject=Subject(pod=pod, node="gpu-7")
    )
    found = proposals(_case(31), [verdict])
    assert [(one.deed, one.target) for one in found] == [(Deed.CORDON, NODE), (Deed.EVICT, POD)]
    assert found[0].source == "verdict driver-not-loaded"
    assert proposals(_case(31), [replace(verdict, confidence=0.4)]) == []


def test_what_is_allowed_is_what_is_named(tmp_path: Path) -> None:
    found = policy(
        tmp_path,
        "allow:\n- {do: [cordon], nodes: ['gpu-*'], labels: {pool: a}}\n- {do: [evict], namespaces: [ml]}\n",
    )
    assert found.allows(Deed.CORDON, NODE, {"pool": "a", "x": "y"})
    assert not found.allows(Deed.CORDON, NODE, {"pool": "b"})
    assert not found.allows(Deed.UNCORDON, NODE, {"pool": "a"})
    assert not found.allows(Deed.CORDON, NODE._replace(name="cpu-1"), {"pool": "a"})
    assert found.allows(Deed.EVICT, POD, {})
    assert not found.allows(Deed.EVICT, POD._replace(namespace="kube-system"), {})
    assert not policy(tmp_path, "").allows(Deed.CORDON, NODE, {})
    assert read_policy(CureSettings()) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allow: [{do: [reboot]}]", "allow"),
        ("allow: [{do: []}]", "allow"),
        ("max_node: 3", "max_nodes"),
        ("max_nodes: -1", "max_nodes"),
        ("approved: [xid-79]", "nothing under allow"),
        ("allow: [{do: [cordon]}]\napproved: [fire]", "no class of faults"),
        ("quiet: [someday]", "someday"),
        ("timezone: Mars/Olympus", "time zone"),
        ("[]", "valid dictionary|group of"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        policy(tmp_path, text)


def test_a_check_of_the_settings_reads_the_policy(tmp_path: Path) -> None:
    settings = tmp_path / "trilens.yaml"
    settings.write_text("cure: {policy: policy.yaml}\n")
    assert trilens_here("config", "check", str(settings)).returncode == 2  # there is none
    (tmp_path / "policy.yaml").write_text("allow: [{do: [cordon]}]\napproved: [xid-13]\n")
    answer = trilens_here("config", "check", str(settings))
    assert (answer.returncode, "policy.yaml:2" in answer.stdout + answer.stderr) == (2, True)
    (tmp_path / "policy.yaml").write_text("allow: [{do: [cordon]}]\napproved: [xid-79]\n")
    assert trilens_here("config", "check", str(settings)).returncode == 0


def test_quiet_times_are_of_the_zone(tmp_path: Path) -> None:
    assert policy(tmp_path, "quiet: sat-sun").is_quiet(NOON_MS)
    assert not policy(tmp_path, "quiet: mon-fri").is_quiet(NOON_MS)
    assert policy(tmp_path, "quiet: '13:00-14:00'\ntimezone: Europe/Berlin").is_quiet(NOON_MS)


def test_what_is_shipped_can_be_used() -> None:
    shipped = read_policy(CureSettings(policy=DEPLOY / "policy.yaml"))
    assert shipped is not None
    assert shipped.approved_classes == {"xid-48", "xid-79"}
    printed = trilens_here("kubernetes", "rbac", "--fix").stdout
    assert printed == (DEPLOY / "rbac.yaml").read_text()
    (role, *_), reading = yaml.safe_load_all(printed), trilens_here("kubernetes", "rbac").stdout
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"patch", "delete", "create"}
    assert "patch" not in reading
    narrow = list(yaml.safe_load_all(trilens_here("kubernetes", "rbac", "--fix", "-n", "ml").stdout))
    assert narrow[0]["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
    assert (narrow[2]["kind"], narrow[2]["metadata"]["namespace"]) == ("Role", "ml")


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_an_eviction_is_what_the_schema_of_its_version_has(version: str) -> None:
    body = eviction(version, "ml", "llm-0", "u1", dry_run=True)
    assert body == {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": "llm-0", "namespace": "ml"},
        "deleteOptions": {"preconditions": {"uid": "u1"}, "dryRun": ["All"]},
    }


def test_what_cannot_be_done_says_what_can() -> None:
    for deed, target in ((Deed.CORDON, POD), (Deed.EVICT, NODE), (Deed.RESTART, NODE)):
        with pytest.raises(RequestError):
            check_target(deed, target)
    assert undo_deed(told(Deed.EVICT, POD)) is None
    assert undo_deed(told(Deed.CORDON, NODE, before={"unschedulable": False})) == (Deed.UNCORDON, {})
    noted = told(Deed.ANNOTATE, POD, before={"a": None, "b": "2"})
    assert undo_deed(noted) == (Deed.ANNOTATE, {"a": "", "b": "2"})
