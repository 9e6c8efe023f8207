"""Findings name things as alerts and commands do."""

from __future__ import annotations

from trilens.detect.scene import JobView
from trilens.detect.wording import job_name
from trilens.model.run import RunFacts, RunId


def test_a_run_of_no_known_workload_has_the_id_that_labels_have() -> None:
    job = JobView(
        None, None, 0, None, None, False, run=RunFacts(RunId("llm-7b-83ee"), 0, name="llm-pretrain-1")
    )
    assert job_name(job) == "run llm-7b-83ee"
