"""What a receiver knows of an incident, and what is news to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trilens.alert.delivery.notice import Notice, Occasion

if TYPE_CHECKING:
    from trilens.alert.delivery.routes import Timing

_GRAVITY: Final = {"critical": 2, "warning": 1, "info": 0}
_REFUSED_MS: Final = (60_000, 300_000, 900_000)  # then as often as any that lasts: a key may be put right


class Known(msgspec.Struct, frozen=True):
    told_ms: int
    root: str = ""
    symptoms: frozenset[str] = frozenset()  # all it was ever told of
    severity: str = ""
    is_acknowledged: bool = False
    refusals: int = 0  # messages in a row that it would not take
    title: str = ""

    def lacks(self, notice: Notice) -> bool:
        """Whether there are more symptoms, or another root. That a symptom is over is no news."""
        return notice.root_key != self.root or not notice.keys <= self.symptoms

    def is_graver_now(self, notice: Notice) -> bool:
        return _GRAVITY.get(notice.severity, 0) > _GRAVITY.get(self.severity, 0)


def having_heard(before: Known | None, notice: Notice, told_ms: int, *, is_refused: bool) -> Known:
    symptoms, refusals = (before.symptoms, before.refusals) if before is not None else (frozenset(), 0)
    return Known(
        told_ms,
        notice.root_key,
        symptoms | notice.keys,
        notice.severity,
        notice.is_acknowledged,
        refusals + 1 if is_refused else 0,
        notice.title,
    )


def lost_sight_of(incident: str, known: Known, now_ms: int) -> Notice:
    """Of one that nobody keeps any more: what was opened there must be closed."""
    title = f"{known.title} (Trilens has lost sight of it)"
    return Notice(
        incident,
        Occasion.RESOLVED,
        True,
        known.severity,
        title,
        {"severity": known.severity},
        (),
        (),
        known.told_ms,
        known.told_ms,
        now_ms,
    )


def occasion_of(
    known: Known | None, notice: Notice, timing: Timing, now_ms: int
) -> tuple[Occasion | None, int]:
    """Why an open incident is to be told, if at all, and when."""
    if known is None:
        return Occasion.OPENED, now_ms + timing.wait_ms
    if known.refusals:
        pauses_ms = (*_REFUSED_MS, timing.repeat_ms)
        again_ms = known.told_ms + pauses_ms[min(known.refusals, len(pauses_ms)) - 1]
        return (Occasion.OPENED if now_ms >= again_ms else None), now_ms
    if notice.is_acknowledged and not known.is_acknowledged:
        return Occasion.ACKNOWLEDGED, now_ms
    if known.is_graver_now(notice):
        return Occasion.CHANGED, now_ms
    if known.lacks(notice):
        return Occasion.CHANGED, max(now_ms, known.told_ms + timing.interval_ms)
    is_time = now_ms >= known.told_ms + timing.repeat_ms and not notice.is_acknowledged
    return (Occasion.REPEATED if is_time else None), now_ms
