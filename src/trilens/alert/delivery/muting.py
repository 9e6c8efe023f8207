"""Which incidents nobody is told of at one moment: by silences, and by others that inhibit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.alert.delivery.held_back import HeldBack, Hold
from trilens.alert.delivery.inhibition import Inhibited
from trilens.alert.delivery.matching import take

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.alert.delivery.inhibition import Inhibition
    from trilens.alert.delivery.matching import Matchers
    from trilens.alert.delivery.notice import Notice
    from trilens.alert.delivery.silences import Silence

_OWNERS: Final = ("team", "cluster")  # what a silence says of these holds for all that it takes


class Muting:
    def __init__(
        self,
        silences: Sequence[tuple[Silence, Matchers]],
        inhibitions: Sequence[Inhibition],
        notices: Iterable[Notice],
    ) -> None:
        """`silences` are those in force, `notices` all that last."""
        self._silences = silences
        there = [labels for notice in notices for labels in _lasting(notice)] if inhibitions else []
        self._inhibited = Inhibited(inhibitions, there)
        self._is_idle = not silences and not inhibitions

    def reasons(self, notice: Notice) -> tuple[HeldBack, ...]:
        """Why nobody is told of it: its root is mute, for the others follow from it; or all that lasts is. A
        silence of a team's root takes nothing that hits others, too."""
        if self._is_idle:
            return ()
        lasting = _lasting(notice)
        root = self._reason(notice.root.labels, lasting) if notice.root is not None else None
        if root is not None:
            return (root,)
        found: dict[HeldBack, None] = {}
        for labels in lasting:
            reason = self._reason(labels)
            if reason is None:
                return ()
            found[reason] = None
        return tuple(found)

    def _reason(
        self, labels: Mapping[str, str], following: Iterable[Mapping[str, str]] = ()
    ) -> HeldBack | None:
        for silence, matchers in self._silences:
            whose = [one for one in matchers if one.name in _OWNERS]
            if take(matchers, labels) and all(take(whose, one) for one in following):
                text = f"{silence.author}: {silence.comment}"
                return HeldBack(Hold.SILENCE, silence.id, text, silence.to_ms)
        rule = self._inhibited.by(labels)
        if rule is None:
            return None
        source = ", ".join(f'{one.name}{one.op}"{one.value}"' for one in rule.source)
        return HeldBack(Hold.INHIBITED, "", f"while there is {source}")


def _lasting(notice: Notice) -> list[dict[str, str]]:
    """The labels of the symptoms that last."""
    return [symptom.labels for symptom in notice.symptoms if symptom.ended_ms is None]
