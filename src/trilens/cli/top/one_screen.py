"""One workload: how it stands, what is wrong with it, and each rank on its GPU."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from trilens.cli.top.cells import plain
from trilens.cli.top.head_text import told_line
from trilens.cli.top.rows_view import RowsView
from trilens.cli.top.tables import rank_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import ComposeResult
    from textual.widget import Widget

    from trilens.cli.top.marks import Marks
    from trilens.cli.top.picture import OneWorkload, Picture, Told, Workload

_FEW: Final = 3  # of incidents and of findings each: the ranks need room, too
_WRAPPED: Final = 20  # cells that folding two lines at words may take
_KEYS: Final = "esc back  s sort  r reverse  p pause  ? help  q quit"


class OneScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,left,backspace", "close")]

    def __init__(self, workload: Workload, marks: Marks) -> None:
        super().__init__()
        self._workload = workload
        self._marks = marks

    def compose(self) -> Iterator[Widget] | ComposeResult:
        one = self._workload
        yield Static(id="state", classes="line")
        title = f"{one.kind} {one.namespace}/{one.name} in {one.cluster}"
        yield Static(Text(plain(title), "bold"), id="title", classes="line")
        yield Static(Text("Asking …", "dim"), id="about")
        yield Static(id="wrong")
        yield RowsView(
            rank_columns(self._marks),
            lambda rank: (rank.rank, rank.pod, rank.gpu),
            self._marks,
            "none of its pods has a GPU now",
        )
        yield Static(Text(_KEYS, "dim"), id="keys", classes="line")

    def on_mount(self) -> None:
        self.query_one(RowsView).focus()

    def show(self, picture: Picture) -> None:
        found = picture.opened
        is_there = bool(self.query(RowsView))  # an answer may come before the widgets do
        if found is None or found.path != self._workload.path or not is_there:
            return
        self.query_one("#about", Static).update(Text("\n".join(plain(line) for line in found.lines)))
        wrong = self.query_one("#wrong", Static)
        lines = self._wrong(found, picture.head.currency) if found.is_known else []
        wrong.update(Text("\n").join(lines))
        self.query_one(RowsView).show(found.ranks)

    def _wrong(self, found: OneWorkload, currency: str | None) -> list[Text]:
        """Incidents, then the findings that say something else; then what to do about the first."""
        said = {one.text for one in found.incidents}
        others = tuple(one for one in found.findings if one.text not in said)
        lines = [*self._few(found.incidents, "incident", currency), *self._few(others, "finding", currency)]
        if not lines:
            return [Text("nothing is wrong with it that is known", "green")]
        first = next(iter((*found.incidents, *others)))
        if first.action:
            do = Text.assemble(("  do: ", "bold"), plain(first.action))
            do.truncate(2 * self.size.width - _WRAPPED, overflow="ellipsis")
            lines.append(do)
        lines.append(Text(f"  why: trilens why {self._workload.namespace}/{self._workload.name}", "dim"))
        return lines

    def _few(self, told: tuple[Told, ...], what: str, currency: str | None) -> list[Text]:
        now_s, width = time.time(), self.size.width
        lines = [told_line(one, currency, now_s, self._marks, width) for one in told[:_FEW]]
        if more := len(told) - len(lines):
            lines.append(Text(f"  and {more} more: trilens {what}s --workload {self._workload.name}", "dim"))
        return lines

    def action_close(self) -> None:
        if self.is_current:
            self.dismiss(None)
