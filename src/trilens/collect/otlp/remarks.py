"""What is said of the spans of a request besides that it was taken: in the partial success of its answer."""

from __future__ import annotations


class Remarks:
    """`refused` spans are not taken. A doubt is of one that is taken, but for what cannot be used of it."""

    def __init__(self) -> None:
        self.refused = 0
        self._doubts = 0
        self._refusal = self._doubt = ""  # the first ones: a request may have a million

    def refuse(self, reason: str, spans: int = 1) -> None:
        self.refused += spans
        self._refusal = self._refusal or reason

    def doubt(self, what: str) -> None:
        self._doubts += 1
        self._doubt = self._doubt or what

    def text(self) -> str:
        """Empty where there is nothing to be said."""
        told = ((self._refusal, self.refused), (self._doubt, self._doubts))
        return "; ".join(_counted(first, count) for first, count in told if count)


def _counted(first: str, count: int) -> str:
    return first if count == 1 else f"{first} (and {count - 1} more)"
