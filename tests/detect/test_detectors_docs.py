"""docs/detectors.md names every detector, and every cause that is written down in one place."""

from __future__ import annotations

from pathlib import Path

from trilens.detect.crash import _ACTIONS as CRASHES
from trilens.detect.detectors import all_detectors
from trilens.detect.divergence import _SEVERITY as DIVERGENCES
from trilens.detect.stall_causes import _OF_FATE
from trilens.detect.suspect_telemetry import _WORDS
from trilens.detect.throttling import _WORDS as THROTTLES

TEXT = (Path(__file__).parents[2] / "docs" / "detectors.md").read_text(encoding="utf-8")


def test_every_detector_has_its_section() -> None:
    assert [one.code for one in all_detectors() if f"\n## {one.code} " not in TEXT] == []


def test_every_cause_is_explained() -> None:
    stalls = {cause for cause, _ in _OF_FATE.values()} | {"data", "collective"}
    others = {"rank-missing", "all-waiting", "kernel", "compute", "fell-back", "never-used", "loss-flat"}
    causes = {*CRASHES, *_WORDS, *stalls, *DIVERGENCES, *THROTTLES, *others}
    assert [cause for cause in sorted(causes) if f"`{cause}`" not in TEXT] == []
