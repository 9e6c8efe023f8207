"""What is wrong with a node: of its GPUs, whoever had them, and whatever became of the jobs there."""

from __future__ import annotations

import re
from dataclasses import replace

from scenario_files import scenarios

from trilens.diagnose.case import Case
from trilens.diagnose.evidence.gpu_faults import gpu_fault
from trilens.diagnose.tree import all_trees
from trilens.diagnose.walk import why
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.workload import GpuUuid

HOUR_MS = 3_600_000


def _case() -> Case:
    """The kernel of gpu-1 told Xid 79 of its GPU 1."""
    [scenario] = [one for one in scenarios() if one.name == "dead-gpu-of-a-node"]
    return scenario.case()


def test_a_gpu_that_is_gone_is_still_the_fault_of_its_node() -> None:
    """It is not among the GPUs of the node any more."""
    file = replace(_case().file, gpus=())
    [verdict, *_] = why(Case(file))
    assert (verdict.cause, verdict.subject.gpu_number) == ("dead-gpu", "1")
    assert "xid 79" in verdict.text
    there = file.subject._replace(name="gpu-9")
    assert gpu_fault(Case(replace(file, subject=there, findings=()))).values != ("dead",)


def test_a_job_that_fell_hours_before_does_not_hide_it() -> None:
    file = _case().file
    began_ms = file.events[0].t_ms - 3 * HOUR_MS
    crash = Finding(
        "D010", FindingKind.CRASH, Subject(node="gpu-1"), Severity.CRITICAL, "", began_ms, "fell", ""
    )
    over = FindingInterval(crash, began_ms, began_ms, began_ms)
    looked = replace(file, from_ms=began_ms, gpus=(), findings=(over,))
    assert gpu_fault(Case(looked)).values == ("dead",)


def test_what_was_told_before_the_case_counts_while_it_lasts() -> None:
    """Though the kernel told of others since."""
    file = _case().file
    [interval], [event] = file.findings, file.events
    before = replace(interval.finding, onset_ms=file.from_ms - 4 * HOUR_MS)
    other = replace(event, code=13, uuid=GpuUuid("GPU-2"), gpu=2)
    lasts = replace(file, findings=(replace(interval, finding=before),), events=(other,))
    assert gpu_fault(Case(lasts)).values == ("dead",)
    over = replace(lasts.findings[0], ended_ms=file.from_ms + 1)
    assert gpu_fault(Case(replace(lasts, findings=(over,)))).values == ("application",)


def test_no_remedy_is_the_command_that_gave_it() -> None:
    fixes = [line for tree in all_trees().values() for end in tree.ends.values() for line in end.fix]
    asked = [line for line in fixes if re.search(r"trilens why (?!--exec)", line)]
    assert not asked
