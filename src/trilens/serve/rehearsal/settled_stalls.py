"""Stalls as somebody tells them who looks only now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.detect.looking import Looking
from trilens.detect.stall import CODE, Stall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.detect.scene import Scene
    from trilens.model.finding import Finding


class SettledStalls:
    """The detector of stalls. A checkpoint between two looks is a pause of which nobody has heard: a stall
    begins only while looks follow each other, at the second that sees it, and is seen again whenever somebody
    looks."""

    code = CODE

    def __init__(self) -> None:
        self._stall = Stall()
        self._looking = Looking()
        self._before: set[tuple[str | None, int]] = set()  # at the last look
        self._begun: set[tuple[str | None, int]] = set()

    def look(self, scene: Scene) -> Iterator[Finding]:
        self._looking.look(scene.now_ms)
        before, self._before = self._before, set()
        for finding in self._stall.look(scene):
            which = finding.subject.run, finding.onset_ms
            self._before.add(which)
            if self._looking.is_settled and which in before:
                self._begun.add(which)
            if which in self._begun:
                yield finding
