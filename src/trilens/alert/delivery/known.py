"""What a receiver knows of an incident, and what is news to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from trilens.alert.delivery.notice import Notice, Occasion
from trilens.model.finding import Severity

if TYPE_CHECKING:
    from trilens.alert.delivery.routes import Timing

_REFUSED_MS: Final = (60_000, 300_000, 900_000)  # then as often as any that lasts: a key may be put right


class Known(msgspec.Struct, frozen=True):
    """What it took last; of one that has taken nothing yet, only how often it would not."""

    told_ms: int  # the last try, whatever became of it
    root: str = ""
    symptoms: frozenset[str] = frozenset()  # all it was ever told of
    severity: str = ""
    is_acknowledged: bool = False
    refusals: int = 0  # messages in a row that it would not take
    title: str = ""
    has_taken: bool = True  # any message: it has something to close

    def lacks(self, notice: Notice) -> bool:
        """Whether there are more symptoms, or another root. That a symptom is over is no news."""
        return notice.root_key != self.root or not notice.keys <= self.symptoms

    def is_graver_now(self, notice: Notice) -> bool:
        return Severity(notice.severity).gravity < Severity(self.severity).gravity


def having_heard(before: Known | None, notice: Notice, told_ms: int) -> Known:
    symptoms = before.symptoms if before is not None else frozenset()
    return Known(
        told_ms,
        notice.root_key,
        symptoms | notice.keys,
        notice.severity,
        notice.is_acknowledged,
        title=notice.title,
    )


def having_refused(before: Known | None, told_ms: int) -> Known:
    """What it took before, it still knows."""
    if before is None:
        return Known(told_ms, refusals=1, has_taken=False)
    return msgspec.structs.replace(before, told_ms=told_ms, refusals=before.refusals + 1)


def end_again_ms(known: Known | None) -> int | None:
    """How long after now one that refused to hear the end is told it again; None where that is given up."""
    refusals = known.refusals if known is not None else 0
    return _REFUSED_MS[refusals] if refusals < len(_REFUSED_MS) else None


def asked_anew(known: Known) -> Known | None:
    """Whoever refused may be in order again: None where it knows nothing."""
    if not known.refusals:
        return known
    return msgspec.structs.replace(known, refusals=0) if known.has_taken else None


def lost_sight_of(incident: str, known: Known, now_ms: int) -> Notice:
    """Of one that nobody keeps any more: what was opened there must be closed."""
    title = f"{known.title or incident} (Trilens has lost sight of it)"
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
        if now_ms < known.told_ms + pauses_ms[min(known.refusals, len(pauses_ms)) - 1]:
            return None, now_ms
    if not known.has_taken:
        return Occasion.OPENED, now_ms
    if notice.is_acknowledged and not known.is_acknowledged:
        return Occasion.ACKNOWLEDGED, now_ms
    if known.is_graver_now(notice):
        return Occasion.CHANGED, now_ms
    if known.lacks(notice):
        told_ms = min(known.told_ms, now_ms)  # the clock may have been set back
        return Occasion.CHANGED, max(now_ms, told_ms + timing.interval_ms)
    is_time = bool(known.refusals) or now_ms >= known.told_ms + timing.repeat_ms
    return (Occasion.REPEATED if is_time and not notice.is_acknowledged else None), now_ms
