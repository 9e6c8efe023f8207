"""The live screen, driven by its keys."""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("textual")

from textual.widgets import Static

from trilens.cli.top.app import TopApp
from trilens.cli.top.marks import UNICODE
from trilens.cli.top.one_screen import OneScreen
from trilens.cli.top.picture import Head, OneWorkload, Picture, RankGpu, Told, Workload
from trilens.cli.top.rows_view import RowsView
from trilens.model.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.pilot import Pilot

SIZE = (80, 24)
HUNG = Told("critical", "20261116-0432-64b1", "it has hung", 0, "Restart it.", Decimal(7))


def workload(name: str, **known: Any) -> Workload:
    return Workload("lab", "ml", "Job", name, currency="USD", **known)


FEW = [workload("ill", health="critical", team="vision"), workload("fine", per_hour=Decimal(3))]


class FakeServer:
    """Answers what it is told to; `asked` counts, and `most` is how many were asked at once."""

    url = "http://lab:9333"

    def __init__(self, workloads: Sequence[Workload] = FEW) -> None:
        self.workloads = tuple(workloads)
        self.trouble: Exception | None = None
        self.asked: list[tuple[str | None, bool]] = []
        self.hold = threading.Event()
        self.hold.set()
        self._under_way = 0
        self.most = 0

    def ask(self, opened: Workload | None = None, *, ended: bool = False) -> Picture:
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            self.hold.wait(30)
            self.asked.append((opened.name if opened is not None else None, ended))
            if self.trouble is not None:
                raise self.trouble
            return Picture(time.time(), Head("USD"), self.workloads, self._inside(opened))
        finally:
            self._under_way -= 1

    def _inside(self, opened: Workload | None) -> OneWorkload | None:
        if opened is None:
            return None
        ranks = tuple(RankGpu(at, f"pod-{at}", "gpu-1", str(at), step_s=0.5 + at) for at in range(3))
        return OneWorkload(opened.path, ("running for 5m",), (HUNG,), (), ranks)


def running(server: FakeServer, every_s: float = 0.02) -> TopApp:
    return TopApp(server, UNICODE, every_s)


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        await pilot.pause(0.01)


def said(app: TopApp, where: str) -> str:
    return "\n".join(str(one.content) for one in app.screen.query(where).results(Static))


def names(app: TopApp) -> list[str]:
    """Of the rows; none where the screen is not there yet."""
    views = app.screen.query(RowsView)
    return [row.name if isinstance(row, Workload) else row.pod for view in views for row in view.rows]


async def test_workloads_the_worst_first_and_one_from_inside() -> None:
    server = FakeServer()
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: names(app) == ["ill", "fine"])
        assert "live" in said(app, "#state")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OneScreen) and len(names(app)) == 3)
        assert "running for 5m" in said(app, "#about")
        assert "20261116-0432-64b1 it has hung" in said(app, "#wrong")
        assert "do: Restart it." in said(app, "#wrong")
        await pilot.press("r")
        assert names(app) == ["pod-2", "pod-1", "pod-0"]
        await pilot.press("escape")
        await until(pilot, lambda: server.asked[-1][0] is None)
        assert names(app) == ["ill", "fine"]
    assert server.most == 1


async def test_search_sort_and_what_has_ended() -> None:
    server = FakeServer([*FEW, workload("over", phase="succeeded"), workload("dear", per_hour=Decimal(90))])
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: names(app) == ["ill", "dear", "fine"])
        await pilot.press("a")
        await until(pilot, lambda: server.asked[-1][1] and len(names(app)) == 4)
        await pilot.press("slash", *"vis", "enter")
        assert names(app) == ["ill"]
        assert "1 of 4" in said(app, "#count")
        await pilot.press("escape")
        assert len(names(app)) == 4
        await pilot.press("s")
        assert names(app) == ["dear", "fine", "ill", "over"]
        await pilot.press("r")
        assert names(app) == ["over", "ill", "fine", "dear"]


async def test_the_cursor_stays_with_its_workload() -> None:
    server = FakeServer([workload(f"w{at}", per_hour=Decimal(100 - at)) for at in range(50)])
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 50)
        view = app.screen.query_one(RowsView)
        await pilot.press("end")
        assert view.chosen.name == "w49"
        shown = "".join(segment.text for segment in view.render_line(view.size.height - 1))
        assert "w49" in shown
        server.workloads = tuple(reversed([*server.workloads[10:], workload("new", health="critical")]))
        await until(pilot, lambda: len(names(app)) == 41)
        assert view.chosen.name == "w49"
        await pilot.press("home")
        assert view.chosen.name == "new"


async def test_away_is_said_and_what_was_there_stays() -> None:
    server = FakeServer()
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 2)
        server.trouble = ServerError("no answer from http://lab:9333", hint="start one")
        await until(pilot, lambda: "OLD" in said(app, "#state"))
        assert "no answer from http://lab:9333" in said(app, "#state")
        assert names(app) == ["ill", "fine"]
        assert app.screen.query_one(RowsView).is_old
        server.trouble = None
        await until(pilot, lambda: "live" in said(app, "#state"))
        assert not app.screen.query_one(RowsView).is_old


async def test_what_nobody_foresaw_is_said_and_it_goes_on() -> None:
    server = FakeServer()
    server.trouble = KeyError("more_incidents")  # a server of another version may not tell it
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "KeyError('more_incidents')" in said(app, "#empty"))
        assert "another version" in said(app, "#empty")
        server.trouble = None
        await until(pilot, lambda: len(names(app)) == 2)
        server.trouble = ValueError("no number")
        await until(pilot, lambda: "ValueError" in said(app, "#state"))


async def test_away_from_the_start_says_what_to_do() -> None:
    server = FakeServer()
    server.trouble = ServerError("no answer from http://lab:9333", hint="start one with: trilens up")
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "trilens up" in said(app, "#empty"))
        server.trouble = None
        await until(pilot, lambda: len(names(app)) == 2)
        assert not app.screen.query_one("#empty").display


async def test_a_pause_asks_nothing() -> None:
    server = FakeServer()
    app = running(server)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 2)
        server.hold.clear()
        await pilot.press("p")
        assert "PAUSED" in said(app, "#state")
        server.hold.set()
        before = len(server.asked)
        await pilot.pause(0.2)  # ten times as long as it waits between two
        assert len(server.asked) <= before + 1  # one was under way
        await pilot.press("p")
        await until(pilot, lambda: len(server.asked) > before + 1)


async def test_markup_in_a_name_is_text() -> None:
    server = FakeServer([workload("[red]x[/]\x1b[2J")])
    app = running(server)
    async with app.run_test(size=(160, 24)) as pilot:
        await until(pilot, lambda: len(names(app)) == 1)
        line = "".join(segment.text for segment in app.screen.query_one(RowsView).render_line(1))
        assert "[red]x[/]" in line
        assert "\x1b" not in line
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, OneScreen) and len(names(app)) == 3)
        assert "[red]x[/] [2J" in said(app, "#title")


async def test_help_and_quit() -> None:
    app = running(FakeServer())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("question_mark")
        assert "search" in said(app, "Static")
        await pilot.press("s")
        assert len(app.screen_stack) == 1
        await pilot.press("q")
    assert app.return_code == 0


async def test_ten_thousand_rows_draw_what_is_seen() -> None:
    server = FakeServer([workload(f"w{at}") for at in range(10_000)])
    app = running(server, every_s=60)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: len(names(app)) == 10_000)
        view = app.screen.query_one(RowsView)
        await pilot.press("pagedown", "pagedown", "end")
        assert view.chosen is view.rows[-1]
        assert view.scroll_offset.y == 10_000 - (view.size.height - 1)
