"""What the keys do, and what the columns mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult

HELP: Final = """\
keys                                     in the list
  up, down, j, k   move                    enter  open a workload: ranks, GPUs
  page up, down    by a page               /      search; esc shows all again
  g, G             first, last             a      also those that have ended
  s, S             sort by the next, the previous column
  r                the other way round
  p                pause, and go on
  q                quit                  in a workload: esc goes back

columns
  good        goodput: the useful share of its GPU time of the last 24 hours
  use         how busy its GPUs were in the last minutes, a minute a sign
  an hour     what its GPUs cost now
  so far      what it has cost in the last 30 days
  left        if it goes on as its last steps did
  took, own   of a rank: a step, in the mean of the last two minutes, and what of
              it is its own work, not waiting for others: a straggler has more
  -           is not known

GPUs
  busy: does useful work            wasted: held, but stalled, idle or waiting
  idle: nobody holds it             broken: lost, with a hardware fault, or
                                    its node is not ready or cordoned
any key closes this"""


class HelpScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("up,down,pageup,pagedown", "none", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Text(HELP))

    def on_key(self) -> None:
        if self.is_current:
            self.dismiss(None)

    def action_none(self) -> None:
        """They scroll."""
