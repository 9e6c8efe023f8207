"""Findings name things as alerts and commands do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from scenes import HUNG, IDLE, Story
from trilens.detect.cpu_fallback import CpuFallback
from trilens.detect.divergence import Divergence
from trilens.detect.gpu_fault import GpuFault
from trilens.detect.hang import Hang
from trilens.detect.scene import Figure, JobView
from trilens.detect.stall import Stall
from trilens.detect.suspect_telemetry import SuspectTelemetry
from trilens.detect.wording import job_name
from trilens.model.run import RunFacts, RunId

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.detect.detector import Detector

RESTS = {**IDLE, Figure.POWER: (125.0, 0.5), Figure.SM_CLOCK: (1.98e9, 0.0)}


def test_a_run_of_no_known_workload_has_the_id_that_labels_have() -> None:
    job = JobView(
        None, None, 0, None, None, False, run=RunFacts(RunId("llm-7b-83ee"), 0, name="llm-pretrain-1")
    )
    assert job_name(job) == "run llm-7b-83ee"


def _hung(story: Story) -> Detector:
    story.stop(800)
    story.state(HUNG, from_s=800)
    story.state(RESTS, rows=[1], from_s=800)
    return Hang()


def _stalled(story: Story) -> Detector:
    story.stop(800)
    return Stall()


def _without_gpu(story: Story) -> Detector:
    story.state(RESTS, from_s=800)
    return CpuFallback()


def _diverges(story: Story) -> Detector:
    for steps in story.steps:
        steps.loss[300:] = np.inf
    return Divergence()


def _lost(story: Story) -> Detector:
    story.gap(800, 1000, rows=[2])
    return GpuFault()


def _silent(story: Story) -> Detector:
    story.gap(800, 1000)
    return SuspectTelemetry()


@pytest.mark.parametrize("happens", [_hung, _stalled, _without_gpu, _diverges, _lost, _silent])
def test_how_long_it_lasts_is_not_in_the_sentence(happens: Callable[[Story], Detector]) -> None:
    """It may be an incident's title for hours after it was last told."""
    story = Story(ranks=4, seed=1)
    texts = [one.text for _, one in story.findings(happens(story), 700, 990)]
    assert len(texts) > 5
    assert len({*texts[-5:]}) == 1, texts[-5:]
