"""What every detector is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.detect.scene import Scene
    from trilens.model.finding import Finding


class Detector(Protocol):
    """Shown one scene after the other, in the order of time; what it must remember it keeps itself. It knows
    no time but the scene's. Not thread-safe."""

    @property
    def code(self) -> str:
        """D001, ...: never used for another one."""

    def look(self, scene: Scene) -> Iterable[Finding]:
        """All that is wrong now, what was found before and still is included."""
