"""All detectors over one scene after the other, and what they find as intervals: opened, going on, ended."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from trilens.detect.detector import Detector
from trilens.model.finding import FindingInterval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.detect.scene import Scene
    from trilens.model.finding import Finding, FindingKey
    from trilens.model.workload import Doubt

log = logging.getLogger(__name__)

QUIET_MS: Final = 20_000  # not seen for so long, it has ended: one look that missed it ends nothing


@runtime_checkable
class Doubter(Detector, Protocol):
    """A detector that says which telemetry is not to be believed. It looks before all others."""

    def suspects(self) -> Mapping[int, tuple[Doubt, ...]]:
        """Rows of the scene that it looked at last, and why."""


@dataclass(slots=True)
class Changes:
    """What one look has changed. An interval that ended is not told again."""

    opened: list[FindingInterval] = field(default_factory=list)
    going_on: list[FindingInterval] = field(default_factory=list)
    ended: list[FindingInterval] = field(default_factory=list)


class Watch:
    """Not thread-safe."""

    def __init__(self, detectors: Sequence[Detector], *, quiet_ms: int = QUIET_MS) -> None:
        self._detectors = sorted(detectors, key=lambda one: not isinstance(one, Doubter))
        self._quiet_ms = quiet_ms
        self._open: dict[FindingKey, FindingInterval] = {}
        self._restored_ms = 0
        self.failures: Counter[str] = Counter()  # by code
        self.took_s: dict[str, float] = {}  # the last look of each detector, in seconds of its own work

    @property
    def open(self) -> list[FindingInterval]:
        return list(self._open.values())

    def restore(self, intervals: Iterable[FindingInterval], at_ms: int) -> None:
        """What lasted when Trilens last ran: seen again it goes on, else it ends when it was last seen."""
        for interval in intervals:
            if interval.ended_ms is None:
                self._open[interval.finding.key] = interval
        self._restored_ms = at_ms

    def look(self, scene: Scene) -> Changes:
        changes = Changes()
        seen: dict[FindingKey, Finding] = {}
        for detector in self._detectors:
            for finding in self._found_by(detector, scene):
                seen.setdefault(finding.key, finding)
            if isinstance(detector, Doubter):
                scene = replace(scene, suspects={**scene.suspects, **detector.suspects()})
        for key, finding in seen.items():
            known = self._open.get(key)
            if known is None:
                interval = FindingInterval(finding, scene.now_ms, scene.now_ms)
                changes.opened.append(interval)
            else:
                first = known.finding
                same = replace(finding, onset_ms=first.onset_ms, severity=first.severity)
                interval = FindingInterval(same, known.detected_ms, scene.now_ms)
                changes.going_on.append(interval)
            self._open[key] = interval
        self._end_unseen(seen, scene.now_ms, changes)
        return changes

    def _found_by(self, detector: Detector, scene: Scene) -> list[Finding]:
        began_s = time.thread_time()
        try:
            return list(detector.look(scene))
        except Exception:  # a defect in one must not silence the others
            if not self.failures[detector.code]:
                log.exception("a detector failed", extra={"code": detector.code})
            self.failures[detector.code] += 1
            return [one.finding for one in self._open.values() if one.finding.code == detector.code]
        finally:
            self.took_s[detector.code] = time.thread_time() - began_s

    def _end_unseen(self, seen: Mapping[FindingKey, Finding], now_ms: int, changes: Changes) -> None:
        for key in [key for key in self._open if key not in seen]:
            known = self._open[key]
            # After a start detectors know nothing of what was before: they have their time, too.
            if now_ms - max(known.seen_ms, self._restored_ms) >= self._quiet_ms:
                del self._open[key]
                changes.ended.append(replace(known, ended_ms=known.seen_ms))
            else:
                changes.going_on.append(known)
