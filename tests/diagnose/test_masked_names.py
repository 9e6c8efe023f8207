"""Names replaced in a case: everywhere, and the same name by the same mask."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace

import pytest
from scenario_files import FOLDER, Scenario
from whole_case import CASE

from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import LogKind, LogText
from trilens.diagnose.masked_names import masked_names
from trilens.diagnose.walk import why
from trilens.model.run import ArtifactRecord, RunId

LINES = ("train-0 on node gpu-node-7 says: vision is slow", "default-scheduler: train-0.ml.svc", "training")
NAMED = replace(
    CASE,
    members=tuple(replace(one, node="gpu-node-7") for one in CASE.members),
    logs=(LogText(LogKind.CONTAINER, "main", LINES, "gpu-node-7", CASE.members[0].membership.pod),),
)


def test_a_name_has_one_mask_everywhere() -> None:
    case = masked_names(NAMED)
    (member,) = case.members
    pod, node = member.membership.pod.name, member.node
    assert (pod, node) == ("pod-1", "node-1")
    assert case.logs[0].lines[0] == f"{pod} on node {node} says: team-1 is slow"
    assert case.logs[0].lines[2] == "training"  # which is no name, though one is a part of it
    assert case.objects[0].name == pod
    assert case.workloads[0].team == "team-1"
    assert case.subject.name == case.workloads[0].key.name == "workload-1"


def test_what_every_cluster_has_and_what_evidence_reads_by_stays() -> None:
    case = masked_names(NAMED)
    assert case.logs[0].lines[1].startswith("default-scheduler: pod-1.")
    assert case.objects[0].labels.keys() == NAMED.objects[0].labels.keys()
    assert (case.phases[0].phase, case.steps, case.series) == (
        NAMED.phases[0].phase,
        NAMED.steps,
        NAMED.series,
    )


def test_no_name_is_left_in_the_file_and_the_cause_is_the_same() -> None:
    file = io.BytesIO()
    write_bundle(masked_names(NAMED), file)
    with zipfile.ZipFile(file) as bundle:
        content = b"".join(bundle.read(name) for name in bundle.namelist())
    assert [name for name in ("train-0", "gpu-node-7", "vision") if name.encode() in content] == []
    causes = [one.cause for one in why(Case(read_bundle(file)))]
    assert causes == [one.cause for one in why(Case(NAMED))]


@pytest.mark.parametrize("name", ["gpus-scattered", "service-monitor-not-selected", "no-exporter-on-node"])
def test_a_verdict_on_masked_names_names_no_other_job_and_is_as_sure(name: str) -> None:
    case = Scenario(FOLDER / name, {}).case()
    [masked] = why(Case(masked_names(case.file)))
    [plain] = why(case)
    assert (masked.cause, masked.confidence) == (plain.cause, plain.confidence)
    said = "\n".join((masked.text, *masked.fix, *(one.text for asked in masked.way for one in asked.facts)))
    assert [one for one in ("train", "llm", "research", "gpu-1") if re.search(rf"\b{one}\b", said)] == []


def test_a_file_in_which_names_cannot_be_replaced_is_left_out_and_told_of() -> None:
    run = RunId("r-1")
    sent = (
        ArtifactRecord(
            run, 0, 0, 1, 1, "flight-recorder", "pickle", b"\x80\x02X\x07\x00\x00\x00train-0\xff."
        ),
        ArtifactRecord(run, 0, 0, 2, 1, "stacks", "text", b"in train-0"),
    )
    case = masked_names(replace(NAMED, artifacts=sent))
    assert [one.content for one in case.artifacts] == [b"in pod-1"]
    assert "1 files that ranks sent" in case.missing[-1].what


def test_of_names_that_begin_alike_the_longest_is_meant() -> None:
    pods = ("train", "train-1", "train-10", "train-1.x")
    members = [CASE.members[0]] * len(pods)
    named = tuple(
        replace(one, membership=replace(one.membership, pod=one.membership.pod._replace(name=pod)))
        for one, pod in zip(members, pods, strict=True)
    )
    line = "train-1 train-10 train-1.x train train-100 trainer (train-1) train-1x"
    case = masked_names(replace(CASE, members=named, logs=(LogText(LogKind.FILE, "f", (line,)),)))
    masks = {pod: one.membership.pod.name for pod, one in zip(pods, case.members, strict=True)}
    assert len(set(masks.values())) == len(pods)
    assert case.logs[0].lines[0] == (
        f"{masks['train-1']} {masks['train-10']} {masks['train-1.x']} {masks['train']} {masks['train']}-100 "
        f"trainer ({masks['train-1']}) {masks['train']}-1x"
    )
