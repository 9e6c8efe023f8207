"""A table of which only the visible lines are drawn: ten thousand rows cost as much as twenty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from trilens.cli.top.choice import Order
from trilens.cli.top.columns import GAP, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events

    from trilens.cli.top.columns import Column, Placed
    from trilens.cli.top.marks import Marks

Of = TypeVar("Of")
_TITLES = 1  # lines above the rows
_SCROLLBAR = 1  # a column that is kept for it, so that nothing moves when it comes


class RowsView(ScrollView, Generic[Of], can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home,g", "edge(-1)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("enter", "open", show=False),
    ]

    class Opened(Message):
        def __init__(self, row: Any) -> None:
            super().__init__()
            self.row = row

    def __init__(
        self, columns: Sequence[Column[Of]], key: Callable[[Of], object], marks: Marks, nothing: str = ""
    ) -> None:
        """`nothing` is what is said where there are no rows."""
        super().__init__()
        self.order: Order[Of] = Order(columns)
        self.is_old = False
        self._columns = columns
        self._key = key
        self._marks = marks
        self._nothing = nothing
        self.rows: list[Of] = []
        self._cursor = 0
        self._placed: list[Placed[Of]] = []

    @property
    def chosen(self) -> Of | None:
        return self.rows[self._cursor] if self.rows else None

    def show(self, rows: Sequence[Of]) -> None:
        """The cursor stays on the row that it was on, wherever that is now; at the top it stays there."""
        chosen = self.chosen
        self.rows = self.order.sorted(rows)
        keys = [self._key(row) for row in self.rows] if chosen is not None and self._cursor else []
        key = self._key(chosen) if chosen is not None else None
        self._cursor = keys.index(key) if key in keys else min(self._cursor, max(0, len(self.rows) - 1))
        self.virtual_size = Size(self.size.width - _SCROLLBAR, len(self.rows) + _TITLES)
        self._follow()
        self.refresh()

    def sort_by_next(self, by: int) -> None:
        self.order.move(by, [one.column for one in self._placed])

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width - _SCROLLBAR
        self._placed = placed(self._columns, width)
        self.virtual_size = Size(width, len(self.rows) + _TITLES)
        self._follow()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y < _TITLES:
            return self._titles(width)
        at = y - _TITLES + round(self.scroll_offset.y)
        if at >= len(self.rows):
            return Strip([Segment(self._nothing if not at else "", Style(dim=True))]).adjust_cell_length(
                width
            )
        return self._line(self.rows[at], width, is_chosen=at == self._cursor)

    def _titles(self, width: int) -> Strip:
        segments = []
        for one in self._placed:
            is_sorted = one.column is self.order.column
            mark = (self._marks.down if self.order.descends else self._marks.up) if is_sorted else ""
            style = Style(bold=True, underline=is_sorted, dim=not is_sorted)
            segments += [Segment(one.title(mark), style), Segment(" " * GAP, Style())]
        return Strip(segments).adjust_cell_length(width)

    def _line(self, row: Of, width: int, *, is_chosen: bool) -> Strip:
        base = Style(reverse=is_chosen, dim=self.is_old and not is_chosen)
        segments = []
        for one in self._placed:
            told = Style.parse(one.column.style(row)) if one.column.style is not None else Style()
            segments += [Segment(one.text(row), told + base), Segment(" " * GAP, base)]
        return Strip(segments).adjust_cell_length(width, base)

    def on_click(self, event: events.Click) -> None:
        if event.y < _TITLES:
            return
        at = event.y - _TITLES + round(self.scroll_offset.y)
        if at < len(self.rows):
            is_second = at == self._cursor
            self._cursor = at
            self.refresh()
            if is_second:
                self.action_open()

    def action_move(self, by: int) -> None:
        self._to(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._to(self._cursor + by * max(1, self.size.height - _TITLES - 1))

    def action_edge(self, side: int) -> None:
        self._to(0 if side < 0 else len(self.rows) - 1)

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Opened(self.chosen))

    def _to(self, at: int) -> None:
        self._cursor = min(max(at, 0), max(0, len(self.rows) - 1))
        self._follow()
        self.refresh()

    def _follow(self) -> None:
        """Keeps the cursor's line in sight, below the titles."""
        shown = max(1, self.size.height - _TITLES)
        top = round(self.scroll_offset.y)
        if not top <= self._cursor < top + shown:
            target = self._cursor if self._cursor < top else self._cursor - shown + 1
            self.scroll_to(y=target, animate=False, immediate=True, force=True)
