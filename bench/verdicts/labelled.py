"""A case of which the cause is known, what was said of it, and what that is worth."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.verdict import SURE_FROM, TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class Label(NamedTuple):
    """What is right to say. `causes` are the ends that are, each with why it is."""

    causes: Mapping[str, str]
    ranks: Collection[int] = ()  # that are to blame; none where it is nobody's, or the label does not say
    gpu: str = ""  # of that rank, which blames it as well
    may_not_know: bool = False  # what it is cannot be known from what there is: to say so is right


class Said(NamedTuple):
    """One verdict; of several the surest comes first."""

    cause: str
    confidence: float
    text: str
    ranks: Collection[int] = ()
    gpu: str = ""


class Mark(StrEnum):
    RIGHT = "right"
    CANNOT_TELL = "cannot tell"
    UNSURE_WRONG = "unsure and wrong"
    SURE_WRONG = "confident and wrong"


class Case(NamedTuple):
    group: str
    name: str
    label: Label
    said: Sequence[Said]

    @property
    def first(self) -> Said:
        return self.said[0] if self.said else Said("", 0.0, "nothing was said")

    @property
    def mark(self) -> Mark:
        """By what is said first, and by all that is said as if it were sure."""
        if any(one.confidence >= SURE_FROM and not self._fits(one) for one in self.said):
            return Mark.SURE_WRONG
        if self.first.confidence < TELL_FROM:
            return Mark.RIGHT if self.label.may_not_know else Mark.CANNOT_TELL
        return Mark.RIGHT if self._fits(self.first) else Mark.UNSURE_WRONG

    @property
    def names_the_rank(self) -> bool | None:
        """None where there is none to name, or the cause is not right either."""
        if not self.label.ranks or self.mark is not Mark.RIGHT:
            return None
        return self._blames(self.first) is True

    def _fits(self, said: Said) -> bool:
        return said.cause in self.label.causes and self._blames(said) is not False

    def _blames(self, said: Said) -> bool | None:
        """Whether it blames the right one; None where it blames nobody."""
        if self.label.gpu and said.gpu:
            return said.gpu == self.label.gpu
        if not self.label.ranks or not said.ranks:
            return None
        return {*said.ranks} == {*self.label.ranks}
