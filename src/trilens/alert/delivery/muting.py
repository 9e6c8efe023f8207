"""Which incidents nobody is told of at one moment: by silences, and by others that inhibit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.alert.delivery.inhibition import Inhibited
from trilens.alert.delivery.matching import take

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.alert.delivery.inhibition import Inhibition
    from trilens.alert.delivery.matching import Matchers
    from trilens.alert.delivery.notice import Notice


class Muting:
    def __init__(
        self, silences: Sequence[Matchers], inhibitions: Sequence[Inhibition], notices: Iterable[Notice]
    ) -> None:
        """`notices` are all that last."""
        self._silences = silences
        there = [labels for notice in notices for labels in _lasting(notice)] if inhibitions else []
        self._inhibited = Inhibited(inhibitions, there)
        self._is_idle = not silences and not inhibitions

    def covers(self, notice: Notice) -> bool:
        """When its root is mute, for the others follow from it; or when all that lasts is."""
        if self._is_idle:
            return False
        root, lasting = notice.root, _lasting(notice)
        return (root is not None and self._is_mute(root.labels)) or (
            bool(lasting) and all(map(self._is_mute, lasting))
        )

    def _is_mute(self, labels: Mapping[str, str]) -> bool:
        return any(take(matchers, labels) for matchers in self._silences) or self._inhibited.takes(labels)


def _lasting(notice: Notice) -> list[dict[str, str]]:
    """The labels of the symptoms that last."""
    return [symptom.labels for symptom in notice.symptoms if symptom.ended_ms is None]
