"""The live screen: workloads first, one of them on enter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from trilens.cli.top.choice import worst_first
from trilens.cli.top.head_text import incidents_line, money_line, state_text
from trilens.cli.top.help_screen import HelpScreen
from trilens.cli.top.one_screen import OneScreen
from trilens.cli.top.picture import Picture, Workload
from trilens.cli.top.rows_view import RowsView
from trilens.cli.top.tables import workload_columns
from trilens.cli.top.watch import Watch
from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from textual import events

    from trilens.cli.top.marks import Marks

Found = TypeVar("Found", bound=Widget)
EVERY_S: Final = 2.0
_KEYS: Final = "enter open  / search  s sort  r reverse  a ended too  p pause  ? help  q quit"


class Asked(Protocol):
    url: str

    def ask(self, opened: Workload | None = None, *, ended: bool = False) -> Picture: ...


class TopApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    .line { height: 1; width: 100%; }
    #empty { height: auto; padding: 1 2; display: none; }
    RowsView, VerticalScroll {
        height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        scrollbar-background: ansi_default; scrollbar-color: ansi_bright_black;
        scrollbar-background-hover: ansi_default; scrollbar-color-hover: ansi_white;
        scrollbar-background-active: ansi_default; scrollbar-color-active: ansi_white;
    }
    #search { height: 1; border: none; padding: 0; display: none; }
    #search:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", priority=False),
        Binding("slash", "search"),
        Binding("s", "sort(1)"),
        Binding("S", "sort(-1)"),
        Binding("r", "reverse"),
        Binding("a", "ended"),
        Binding("p", "pause"),
        Binding("question_mark,h", "help"),
        Binding("escape", "all"),
    ]

    def __init__(self, reader: Asked, marks: Marks, every_s: float = EVERY_S) -> None:
        super().__init__(ansi_color=True)  # the terminal's own sixteen: they fit its background
        self.animation_level = "none"
        self.picture: Picture | None = None
        self.trouble: TrilensError | None = None
        self.marks = marks
        self.opened: Workload | None = None
        self._reader = reader
        self._words = ""
        self._ended = False
        self.watch_thread = Watch(self._ask, self._tell, every_s)

    def compose(self) -> ComposeResult:
        yield Static(id="state", classes="line")
        yield Static(id="money", classes="line")
        yield Static(id="incidents", classes="line")
        yield Static(id="count", classes="line")
        yield Static(id="empty")
        yield RowsView(workload_columns(self.marks), lambda one: one.path, self.marks)
        yield Input(placeholder="search: name, namespace, team, kind or phase", id="search", compact=True)
        yield Static(Text(_KEYS, "dim"), id="keys", classes="line")

    def on_mount(self) -> None:
        self.query_one(RowsView).focus()
        self._show()
        self.set_interval(1.0, self.show_state)
        self.watch_thread.start()

    def on_unmount(self) -> None:
        self.watch_thread.end()

    def _ask(self) -> Picture:
        return self._reader.ask(self.opened, ended=self._ended)

    def _tell(self, answer: Picture | TrilensError) -> None:
        """In the asking thread."""
        if self.is_running:
            self.call_later(self._take, answer)

    def _take(self, answer: Picture | TrilensError) -> None:
        if isinstance(answer, TrilensError):
            self.trouble = answer
        else:
            self.picture, self.trouble = answer, None
        self._show()

    def _show(self) -> None:
        self.show_state()
        view = self._main(RowsView)
        view.is_old = self.trouble is not None
        empty = self._main(Static, "#empty")
        empty.display = self.picture is None or not self.picture.workloads
        empty.update(self._nothing())
        if self.picture is None:
            return
        width = self.size.width
        self._main(Static, "#money").update(money_line(self.picture.head, self.marks, width))
        self._main(Static, "#incidents").update(incidents_line(self.picture.head, width))
        known = [one for one in self.picture.workloads if self._ended or not one.is_over]
        shown = [one for one in known if one.has(self._words)]
        view.show(worst_first(shown))
        self._main(Static, "#count").update(self._count(len(shown), len(known)))
        if isinstance(self.screen, OneScreen):
            self.screen.show(self.picture)

    def show_state(self) -> None:
        age_s = time.time() - self.picture.at_s if self.picture is not None else None
        trouble = None
        if self.trouble is not None:  # with nothing else on the screen, there is room for it below
            trouble = "no answer yet" if self.picture is None else str(self.trouble)
        told = state_text(age_s, trouble, is_paused=self.watch_thread.is_paused)
        line = Text.assemble(("trilens top ", "bold"), (self._reader.url, "dim"), "  ", told)
        line.truncate(self.size.width, overflow="ellipsis")
        for one in (self.screen_stack[0], self.screen):
            for state in one.query("#state").results(Static):
                state.update(line)

    def _count(self, shown: int, known: int) -> Text:
        of = "" if shown == known else f" of {known:,}"
        words = f" with {self._words!r} (esc shows all)" if self._words else ""
        ended = ", the ended ones too" if self._ended else ""
        order = self._main(RowsView).order.column
        return Text(f"{shown:,}{of} workloads{ended}{words}, by {order.title or 'health'}", "dim")

    def _nothing(self) -> Text:
        if self.picture is not None:
            more = "" if self._ended else " Press a for those that have ended."
            return Text(f"No workload is there.{more}\nIs a cluster watched? trilens doctor says.")
        if self.trouble is None:
            return Text("Asking …", "dim")
        return Text.assemble(
            (self.trouble.message, "bold red"), f"\n{self.trouble.hint or ''}\nTried again all the time."
        )

    def on_resize(self, _: events.Resize) -> None:
        self.call_after_refresh(self._show)  # the widgets have their new sizes then

    def on_rows_view_opened(self, message: RowsView.Opened) -> None:
        if not isinstance(message.row, Workload):
            return
        if not message.row.cluster:
            self.notify(f"it runs outside of Kubernetes: trilens runs show {message.row.run}")
            return
        self.opened = message.row
        self.push_screen(OneScreen(message.row, self.marks), lambda _: self._close())
        self.watch_thread.now()

    def _close(self) -> None:
        self.opened = None

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    def action_pause(self) -> None:
        self.watch_thread.is_paused = not self.watch_thread.is_paused
        if not self.watch_thread.is_paused:
            self.watch_thread.now()
        self.show_state()

    def action_ended(self) -> None:
        self._ended = not self._ended
        self.watch_thread.now()

    def action_sort(self, by: int) -> None:
        for view in self.screen.query(RowsView):  # the help has none
            view.sort_by_next(by)
        self._show()

    def action_reverse(self) -> None:
        for view in self.screen.query(RowsView):
            view.order.turned = not view.order.turned
        self._show()

    def action_search(self) -> None:
        if len(self.screen_stack) > 1:
            return
        box = self.query_one(Input)
        box.display = True
        self.screen.set_focus(box)  # at once: what is typed next belongs to it

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words = event.value
        self._show()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        self._leave_search()

    def action_all(self) -> None:
        self.query_one(Input).value = ""
        self._leave_search()

    def _leave_search(self) -> None:
        self.screen.set_focus(self.query_one(RowsView))
        self.query_one(Input).display = False

    def _main(self, kind: type[Found], selector: str = "") -> Found:
        """Of the first screen, whichever is shown."""
        first = self.screen_stack[0]
        return first.query_one(selector, kind) if selector else first.query_one(kind)
