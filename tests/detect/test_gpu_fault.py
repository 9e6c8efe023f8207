"""D009: faults of GPUs, by what they ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scenes import START_MS, Story
from trilens.detect.gpu_fault import GpuFault
from trilens.detect.scene import Figure, Offender
from trilens.model.event import EventKind, EventRecord
from trilens.model.finding import Severity


def _event(code: int | None, at_s: float, row: int = 3, kind: EventKind = EventKind.XID, text: str = "told"):
    return EventRecord(
        "node-0",
        f"{code}-{at_s}",
        START_MS + round(at_s * 1000),
        kind,
        code,
        text,
        None,
        None,
        f"GPU-llm-{row}",
        row,
        None,
        None,
        None,
        None,
    )


def _freed_at(at_s: float):
    """Nobody has a GPU from then on."""

    def freed(scene):
        if scene.now_ms < START_MS + at_s * 1000:
            return scene
        places = [place._replace(workload=None, pod=None, rank=None) for place in scene.telemetry.places]
        return replace(scene, telemetry=replace(scene.telemetry, places=places))

    return freed


def _found(story: Story, from_s: float = 780, to_s: float = 900):
    return story.findings(GpuFault(), from_s, to_s)


@pytest.mark.parametrize("every_s", [5, 30])
def test_calm_gpus_have_no_faults(every_s: int) -> None:
    assert not _found(Story(ranks=16, telemetry_every_s=every_s), 100, 900)


@pytest.mark.parametrize(
    ("code", "severity", "says"),
    [
        (79, Severity.CRITICAL, "drain"),
        (48, Severity.CRITICAL, "drain"),
        (95, Severity.CRITICAL, "reset"),
        (64, Severity.CRITICAL, "reset"),
        (13, Severity.WARNING, "do not cordon"),
        (31, Severity.WARNING, "do not cordon"),
        (94, Severity.WARNING, "do not cordon"),
        (74, Severity.WARNING, "nvlink"),
        (63, Severity.INFO, "Nothing"),
        (999, Severity.WARNING, "events"),
    ],
)
def test_an_xid_asks_for_what_the_catalogue_says(code: int, severity: Severity, says: str) -> None:
    story = Story()
    story.events.append(_event(code, 800))
    at_s, finding = _found(story)[0]
    assert at_s == 800
    assert (finding.severity, finding.cause) == (severity, f"xid-{code}")
    assert says in finding.action
    subject = finding.subject
    assert (subject.gpu, subject.rank, subject.node) == ("GPU-llm-3", 3, "node-0")
    assert subject.workload == story.workload
    assert finding.onset_ms == START_MS + 800_000


def test_who_had_the_gpu_is_named_though_the_fault_has_ended_its_pod() -> None:
    story = Story()
    story.events.append(_event(79, 800))
    story.change = _freed_at(798)
    _, finding = _found(story)[0]
    assert (finding.subject.workload, finding.subject.rank) == (story.workload, 3)


@pytest.mark.parametrize("code", [45, 154])
def test_those_that_follow_another_are_never_alone(code: int) -> None:
    story = Story()
    story.events.append(_event(code, 800))
    assert not _found(story)
    story.events.append(_event(79, 799))
    (at_s, finding), *_ = _found(story)
    assert at_s == 800
    assert finding.cause == "xid-79"
    assert any(str(code) in one.text for one in finding.evidence)


def test_the_gravest_of_a_gpu_stands_for_all() -> None:
    story = Story()
    story.events += [_event(13, 795), _event(48, 800), _event(45, 801), _event(13, 805)]
    last = [one for at_s, one in _found(story) if at_s == 820]
    assert [one.cause for one in last] == ["xid-48"]


def test_a_gpu_of_which_no_number_is_known_is_named_by_its_uuid() -> None:
    story = Story()
    story.events.append(replace(_event(95, 800), node="elsewhere", uuid="GPU-x", gpu=None))
    _, finding = _found(story)[0]
    assert finding.text.startswith("Xid 95 on GPU-x of elsewhere: ")
    assert finding.action.startswith("Move the job off GPU-x of elsewhere")
    assert "-i GPU-x`" in finding.action


def test_a_change_of_dcgms_gauge_tells_where_no_agent_does() -> None:
    story = Story()
    story.level(Figure.XID, 79, rows=[5], from_s=800, noise=0)
    at_s, finding = _found(story)[0]
    assert (at_s, finding.cause, finding.subject.rank) == (800, "xid-79", 5)
    assert finding.confidence < 0.9


def test_the_log_and_the_gauge_tell_of_one_fault() -> None:
    story = Story()
    story.events.append(_event(79, 798, row=5))
    story.level(Figure.XID, 79, rows=[5], from_s=810, noise=0)
    last = [one for at_s, one in _found(story) if at_s == 850]
    assert [one.figures["times"] for one in last] == [1]


def test_a_gauge_that_has_held_its_code_for_long_tells_nothing_new() -> None:
    story = Story()
    story.figures[Figure.XID][5] = 79
    assert not _found(story)


def test_complaints_about_links_have_their_switch_or_gpu() -> None:
    story = Story()
    story.events.append(_event(12028, 800, kind=EventKind.SXID, text="Fatal, Link 27 egress error"))
    story.events.append(_event(None, 800, row=6, kind=EventKind.NVLINK, text="link 3 is down"))
    found = {one.cause: one for at_s, one in _found(story) if at_s == 800}
    assert found["sxid-12028"].severity is Severity.CRITICAL
    assert found["nvlink"].severity is Severity.WARNING
    assert found["nvlink"].subject.rank == 6


@pytest.mark.parametrize(("every_s", "within_s"), [(5, 20), (30, 120)])
def test_a_gpu_that_falls_silent_while_its_node_speaks_is_lost(every_s: int, within_s: float) -> None:
    story = Story(telemetry_every_s=every_s, seconds=3600)
    story.gap(800, 3600, rows=[6])
    found = story.findings(GpuFault(), 700, 3500, 30 if every_s == 30 else 10)
    at_s, finding = found[0]
    assert at_s - 800 <= within_s
    assert (finding.cause, finding.subject.rank, finding.severity) == ("lost", 6, Severity.CRITICAL)
    assert abs(finding.onset_ms - (START_MS + 800_000)) <= every_s * 1000
    assert found[-1][0] >= 3490  # long after the last word of it has left the window


def test_a_lost_gpu_is_that_of_who_had_it_though_its_pod_is_gone_before_anybody_knows() -> None:
    story = Story()
    story.gap(800, 900, rows=[3])
    story.change = _freed_at(802)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.workload, finding.subject.rank) == ("lost", story.workload, 3)
    story.change = _freed_at(740)
    assert {one.subject.workload for _, one in _found(story, 700)} == {None}, "it was free when it went"


def test_a_lost_gpu_that_speaks_again_is_not_lost() -> None:
    story = Story()
    story.gap(700, 760, rows=[6])
    found = _found(story, 690, 900)
    assert found
    assert max(at_s for at_s, _ in found) < 765


def test_a_node_that_is_silent_as_a_whole_has_lost_no_gpu() -> None:
    story = Story(ranks=16)
    story.gap(800, 1800, rows=range(8, 16))
    assert not _found(story, 700, 1000)


def test_rows_that_wait_for_a_reset() -> None:
    story = Story()
    story.level(Figure.ROW_REMAP_PENDING, 1, rows=[1], from_s=800, noise=0)
    at_s, finding = _found(story)[0]
    assert (at_s, finding.cause, finding.subject.rank) == (800, "row-remap-pending", 1)
    assert finding.onset_ms == START_MS + 800_000


def test_repeat_offenders() -> None:
    story = Story()
    told = [Offender("", "node-0", "GPU-llm-2", 3, START_MS), Offender("east", "node-0", None, 2, START_MS)]
    story.change = lambda scene: replace(scene, offenders=told)
    _, finding = _found(story)[0]
    assert (finding.cause, finding.subject.gpu) == ("repeat-offender", "GPU-llm-2")
    assert len({one.key for _, one in _found(story)}) == 1


def test_nodes_of_one_name_in_two_clusters_are_two() -> None:
    story = Story()
    for cluster in ("east", "west"):
        told = replace(_event(79, 800), uuid=None, gpu=None, cluster=cluster)
        story.events += [told, replace(told, id="link", kind=EventKind.NVLINK, code=None)]
    found = {(one.cause, one.subject.cluster, one.subject.node) for _, one in _found(story)}
    assert found == {
        (cause, cluster, "node-0") for cause in ("xid-79", "nvlink") for cluster in ("east", "west")
    }


@pytest.mark.parametrize(
    ("text", "severity", "says"),
    [
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000)", Severity.CRITICAL, "reset it"),
        ("NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x00000004 0x00000001)", Severity.INFO, "Nothing now"),
        ("a line that was cut", Severity.WARNING, "nvlink -e"),
    ],
)
def test_what_an_nvlink_xid_asks_for_is_in_its_sub_code(text: str, severity: Severity, says: str) -> None:
    story = Story()
    story.events.append(_event(149, 800, text=text))
    _, found = _found(story)[0]
    assert (found.cause, found.severity) == ("xid-149", severity)
    assert says in found.action
