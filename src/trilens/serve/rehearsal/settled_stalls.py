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
    """The detector of stalls. A checkpoint that was over just before a look is a pause of which nobody has
    heard: a stall begins only while looks follow each other, and is seen again whenever somebody looks."""

    code = CODE

    def __init__(self) -> None:
        self._stall = Stall()
        self._looking = Looking()
        self._begun: set[tuple[str | None, int]] = set()

    def look(self, scene: Scene) -> Iterator[Finding]:
        self._looking.look(scene.now_ms)
        for finding in self._stall.look(scene):
            which = finding.subject.run, finding.onset_ms
            if self._looking.is_settled:
                self._begun.add(which)
            if which in self._begun:
                yield finding
