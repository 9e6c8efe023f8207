"""All detectors over one scene after the other, and what they find as intervals: opened, going on, ended."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from trilens.detect.detector import Detector
from trilens.detect.sameness import handles_of
from trilens.detect.subjects import Completion
from trilens.model.finding import FindingInterval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from trilens.detect.sameness import Handle
    from trilens.detect.scene import Scene
    from trilens.model.finding import Finding, FindingKey
    from trilens.model.workload import Doubt

log = logging.getLogger(__name__)

QUIET_MS: Final = 20_000  # not seen for so long, it has ended: one look that missed it ends nothing
# After a start detectors know nothing of what was before, and a hang takes most of a minute to be seen again:
# nobody is to be told that it is over, and a moment later that it is not.
RESTORED_MS: Final = 90_000


@runtime_checkable
class Doubter(Detector, Protocol):
    """A detector that says which telemetry is not to be believed. It looks before all others."""

    def suspects(self) -> Mapping[int, tuple[Doubt, ...]]:
        """Rows of the scene that it looked at last, and why."""


@runtime_checkable
class Resuming(Detector, Protocol):
    """A detector that needs longer than a start to see what it had found before."""

    def resume(self, interval: FindingInterval) -> None:
        """One of its own, which lasted then."""


@dataclass(slots=True)
class Changes:
    """What one look has changed. An interval that ended is not told again."""

    opened: list[FindingInterval] = field(default_factory=list)
    going_on: list[FindingInterval] = field(default_factory=list)
    sharpened: list[FindingInterval] = field(default_factory=list)  # of those: cause or subject is another
    ended: list[FindingInterval] = field(default_factory=list)


class Watch:
    """Not thread-safe."""

    def __init__(self, detectors: Sequence[Detector], *, quiet_ms: int = QUIET_MS) -> None:
        self._detectors = sorted(detectors, key=lambda one: not isinstance(one, Doubter))
        self._quiet_ms = quiet_ms
        self._open: dict[FindingKey, FindingInterval] = {}
        self._by_handle: dict[Handle, FindingKey] = {}
        self._handles: dict[FindingKey, tuple[Handle, ...]] = {}
        self._completion = Completion()
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
                self._put(interval)
                self._resume(interval)
        self._restored_ms = at_ms

    def _resume(self, interval: FindingInterval) -> None:
        for detector in self._detectors:
            if detector.code == interval.finding.code and isinstance(detector, Resuming):
                detector.resume(interval)

    def look(self, scene: Scene) -> Changes:
        changes = Changes()
        found: list[Finding] = []
        for detector in self._detectors:
            found += self._found_by(detector, scene)
            if isinstance(detector, Doubter):
                scene = replace(scene, suspects={**scene.suspects, **detector.suspects()})
        if found:
            self._completion.look(scene)
        seen: set[FindingKey] = set()
        for each in found:
            finding = replace(each, subject=self._completion.of(each.subject))
            known = self._known_as(finding, seen)
            if known is None:
                if finding.key in seen:
                    continue
                interval = FindingInterval(finding, scene.now_ms, scene.now_ms)
                changes.opened.append(interval)
            else:
                interval = _again(known, finding, scene.now_ms)
                changes.going_on.append(interval)
                if (known.finding.subject, known.finding.cause) != (finding.subject, finding.cause):
                    changes.sharpened.append(interval)
            seen.add(interval.key)
            self._put(interval)
        self._end_unseen(seen, scene.now_ms, changes)
        return changes

    def _known_as(self, finding: Finding, taken: Collection[FindingKey]) -> FindingInterval | None:
        """The one that lasts and is this one, seen again. What has become graver is told anew."""
        for handle in handles_of(finding).known_by:
            key = self._by_handle.get(handle)
            if key is not None and key not in taken and key.severity.gravity <= finding.severity.gravity:
                return self._open[key]
        return self._open.get(finding.key) if finding.key not in taken else None

    def _put(self, interval: FindingInterval) -> None:
        key, handles = interval.key, handles_of(interval.finding).own
        self._open[key] = interval
        if handles != self._handles.get(key):
            self._let_go(key)
            self._handles[key] = handles
            self._by_handle.update(dict.fromkeys(handles, key))

    def _let_go(self, key: FindingKey) -> None:
        for handle in self._handles.pop(key, ()):
            if self._by_handle.get(handle) == key:  # else a graver one has it by now
                del self._by_handle[handle]

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

    def _end_unseen(self, seen: Collection[FindingKey], now_ms: int, changes: Changes) -> None:
        for key in [key for key in self._open if key not in seen]:
            known = self._open[key]
            is_restored = known.seen_ms < self._restored_ms  # and was not seen since
            ends_ms = self._restored_ms + RESTORED_MS if is_restored else known.seen_ms + self._quiet_ms
            if now_ms >= ends_ms:
                del self._open[key]
                self._let_go(key)
                changes.ended.append(replace(known, ended_ms=known.seen_ms))
            else:
                changes.going_on.append(known)


def _again(known: FindingInterval, finding: Finding, now_ms: int) -> FindingInterval:
    first = known.finding
    now = replace(finding, onset_ms=first.onset_ms, severity=first.severity)
    return FindingInterval(
        now, known.detected_ms, now_ms, opened_as=known.key if known.key != now.key else None
    )
