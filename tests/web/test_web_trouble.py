"""A server that is away, slow, full or wants another token: the page says so, keeps what it has, recovers."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from told_machine import Told, asking, told_machine
from watched_tab import watched_tab

from servers import free_port, running
from trilens_process import TRILENS, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "the-token-of-today"
OTHER = "the-token-of-tomorrow"
JOBS = ("bert-large", "resnet")
TABLE = re.compile(r"/api/workload-table")
ABSENT = r"Failed to load resource: (net::ERR_|the server responded with a status of 401)"
PAGES = ("", "workloads", "fleet", "money", "experiments", "services", "incidents", "explore", "doctor")


class Server:
    """One that can be killed, and started again on its port with its data."""

    def __init__(self, folder: Path, machine: Told) -> None:
        self._folder = folder
        self._config = asking(folder, machine)
        self._address = f"127.0.0.1:{free_port()}"
        self._running = ExitStack()
        self.url = f"http://{self._address}"
        self.token = ""

    def start(self, token: str = TOKEN) -> None:
        self.stop()
        self.token = token
        data = str(self._folder / "data")
        command = [*TRILENS, "up", "--listen", self._address, "--data", data, "--config", self._config]
        environ = clean_environment(TRILENS_SERVER_TOKEN=token)
        self._running.enter_context(
            running(command, f"{self.url}/readyz", log=self._folder / "log", **environ)
        )

    def stop(self) -> None:
        self.token = ""
        self._running.close()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("trouble")
    with told_machine(JOBS) as machine:
        server = Server(folder, machine)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def server(started: Server) -> Server:
    """As a test wants to find it, whatever became of the one before."""
    if started.token != TOKEN:
        started.start()
    return started


@pytest.fixture
def tab(browser: Browser, server: Server) -> Iterator[Page]:
    """Of somebody who has given the token already."""
    with watched_tab(browser, server.url, ABSENT) as found:
        found.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        yield found


def jobs_shown(tab: Page) -> None:
    for job in JOBS:
        expect(tab.locator("main td a").filter(has_text=job)).to_be_visible()


def test_a_token_is_asked_for_and_a_wrong_one_is_refused(
    browser: Browser, server: Server, axe: Callable[[Page], None]
) -> None:
    with watched_tab(browser, server.url, ABSENT) as tab:
        tab.goto("/workloads")
        expect(tab.get_by_role("alert")).to_contain_text("This server wants a token")
        expect(tab.locator("main")).to_contain_text("waiting for you to log in")
        field = tab.get_by_label("Token")
        expect(field).to_be_focused()
        axe(tab)
        field.fill("wröng")
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("alert")).to_contain_text("letters, digits and signs only")
        field.fill("wrong")
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("alert")).to_contain_text("does not take this token")
        tab.get_by_label("Token").fill(f" {TOKEN} ")
        tab.get_by_role("button", name="Go on").click()
        jobs_shown(tab)
        expect(tab.get_by_label("Token")).to_have_count(0)
        tab.reload()
        jobs_shown(tab)


def test_a_server_that_goes_away_and_comes_back(
    tab: Page, server: Server, axe: Callable[[Page], None]
) -> None:
    # Pages are small: the others are loaded when there is nothing else to do.
    with tab.expect_request_finished(lambda asked: re.search(r"/doctor-.*\.js", asked.url) is not None):
        tab.goto("/workloads")
    jobs_shown(tab)
    tab.evaluate("window.same = true")
    server.stop()
    away = tab.get_by_role("alert").filter(has_text="The server does not answer")
    expect(away).to_be_visible()
    expect(away).to_contain_text(re.compile(r"What is shown is from (just now|.* ago)"))
    jobs_shown(tab)
    axe(tab)
    tab.locator("nav a", has_text="Doctor").click()
    expect(tab.locator("main")).to_contain_text("waiting for the server")
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("dialog")).to_contain_text("Only pages can be found now")
    tab.keyboard.press("Escape")
    tab.locator("nav a", has_text="Workloads").click()
    server.start()
    tab.get_by_role("button", name="Try now").click()
    expect(away).to_have_count(0)
    jobs_shown(tab)
    tab.locator("nav a", has_text="Doctor").click()
    expect(tab.get_by_role("heading", level=1)).to_be_visible()
    assert tab.evaluate("window.same")


def told(status: int, error: str) -> dict[str, object]:
    body = json.dumps({"status": "error", "errorType": "unavailable", "error": error})
    return {"status": status, "content_type": "application/json", "body": body}


@pytest.mark.parametrize(
    ("answer", "said", "todo"),
    [
        (told(503, "the disk is full (free some space)"), "the disk is full (free some space)", ""),
        (told(429, "too many questions"), "too many questions", "asks again by itself, less often"),
        ({"status": 503, "body": "<h1>Busy</h1>"}, "The server is busy or starting.", "asks again by itself"),
        ({"status": 502, "body": "<h1>Bad gateway</h1>"}, "The server is not reached.", "such as a proxy"),
        ({"status": 500, "body": ""}, "The server answers 500.", "its log says more"),
        (
            {"status": 200, "body": "<h1>Sign in</h1>"},
            "The server's answer is not JSON.",
            "a proxy in between",
        ),
    ],
    ids=["full", "too many", "busy", "proxy", "fault", "not json"],
)
def test_an_answer_that_is_none(
    browser: Browser, server: Server, answer: dict[str, object], said: str, todo: str
) -> None:
    with watched_tab(browser, server.url, "Failed to load resource") as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        tab.clock.install()
        tab.goto("/workloads")
        jobs_shown(tab)
        tab.route(TABLE, lambda route: route.fulfill(**answer))  # type: ignore[arg-type]
        tab.clock.run_for(20_000)
        notice = tab.locator("main").get_by_role("alert")
        expect(notice).to_contain_text(said)
        expect(notice).to_contain_text(re.compile(r"What is shown is from .* ago"))
        expect(notice).to_contain_text(todo)
        jobs_shown(tab)
        tab.unroute(TABLE)
        tab.clock.run_for(40_000)
        expect(notice).to_have_count(0)


def test_where_there_is_nothing_to_show_yet_it_is_said_in_its_place(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url, "Failed to load resource") as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        tab.route(TABLE, lambda route: route.fulfill(**told(503, "the query took too long")))  # type: ignore[arg-type]
        tab.goto("/workloads")
        expect(tab.locator("main .state-failed")).to_contain_text("the query took too long")
        tab.unroute(TABLE)
        tab.get_by_role("button", name="Try again").click()
        jobs_shown(tab)


def test_what_to_do_is_said_beside_what_went_wrong(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url, "Failed to load resource") as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        tab.goto("/workloads")
        jobs_shown(tab)
        nobody = f"{server.url}/api/workloads/home/ml/Job/nobody"
        tab.route(TABLE, lambda route: route.continue_(url=nobody))
        tab.goto("/workloads?state=all")
        told = tab.locator("main .state-failed p")
        expect(told.nth(0)).to_have_text(re.compile("^no workload .* is known at that time$"))
        expect(told.nth(1)).to_have_text("/api/workloads has them all")


def test_before_the_first_look_no_workload_is_said_to_be_missing(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url) as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")

        def empty(at_ms: int | None, *warnings: str) -> Callable[[Route], None]:
            def answer(route: Route) -> None:
                body = route.fetch().json()
                data = {name: [] if isinstance(one, list) else one for name, one in body["data"].items()}
                told = {"status": "success", "data": {**data, "at_ms": at_ms}, "warnings": list(warnings)}
                route.fulfill(json=told)

            return answer

        for answer, said in (
            (empty(None, "nothing was looked at yet"), "Which workloads there are is not known yet."),
            (empty(1, "the cluster is not read yet"), "Which workloads there are is not known yet."),
            (empty(1), "No workload uses or wants a GPU."),
        ):
            tab.route(TABLE, answer)
            tab.goto("/workloads")
            expect(tab.get_by_text(said)).to_be_visible()
            tab.unroute(TABLE)


class Held:
    """Answers that do not come until the test lets them."""

    def __init__(self, tab: Page) -> None:
        self._tab = tab
        self._held: list[Route] = []

    def hold(self) -> None:
        self._tab.route(TABLE, self._take)

    def _take(self, route: Route) -> None:
        self._held.append(route)

    def release(self) -> None:
        while self._held:
            self._held.pop().continue_()
        self._tab.unroute(TABLE)


def test_a_slow_answer(tab: Page) -> None:
    held = Held(tab)
    tab.clock.install()
    held.hold()
    tab.goto("/workloads")
    expect(tab.get_by_role("status").filter(has_text="Looking at all workloads")).to_be_visible()
    tab.clock.run_for(6000)
    slow = tab.get_by_role("status").filter(has_text="The server takes its time")
    expect(slow).to_be_visible()
    held.release()
    jobs_shown(tab)
    expect(slow).to_have_count(0)
    # And one that is slow when there is an older one.
    held.hold()
    tab.clock.run_for(20_000)
    expect(slow).to_contain_text("What is shown is from")
    jobs_shown(tab)
    held.release()
    expect(slow).to_have_count(0)


def test_a_page_that_breaks_leaves_the_others(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url, "TypeError") as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        tab.route(TABLE, lambda route: route.fulfill(json={"status": "success", "data": {"name": 7}}))
        tab.goto("/workloads")
        expect(tab.get_by_role("heading", name="This page broke")).to_be_visible()
        tab.unroute(TABLE)
        tab.locator("nav a", has_text="Fleet").click()
        expect(tab.get_by_role("heading", level=1)).to_contain_text("GPU")
        tab.locator("nav a", has_text="Workloads").click()
        jobs_shown(tab)


def test_a_time_of_which_nothing_is_known(tab: Page) -> None:
    for path in PAGES:
        tab.goto(f"/{path}?from=1000000000000&to=1000003600000")
        expect(tab.locator("nav a[aria-current=page]")).to_have_count(1)
        expect(tab.locator(".spinner")).to_have_count(0)
        expect(tab.locator("main .state-failed")).to_have_count(0)
        expect(tab.get_by_label("Span of time")).to_have_value("")
        assert tab.locator("main").inner_text().strip() != ""


@pytest.mark.parametrize(
    "query", ["range=ever", "range=9999999w", "from=5&to=99999999999999999", "from=x&to=y"]
)
def test_a_span_that_is_none_is_the_usual_one(tab: Page, query: str) -> None:
    tab.goto(f"/workloads?{query}")
    jobs_shown(tab)
    expect(tab.get_by_label("Span of time")).to_have_value("12h")


def test_what_is_not_there_is_said(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url, "404") as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        for path in ("/workloads/machines/ada/Job/nobody", "/incidents/nobody"):
            tab.goto(path)
            expect(tab.locator("main .state-failed, main .state-empty").first).to_contain_text("nobody")
        tab.goto("/incidents/%E0%A4%A")
        expect(tab.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_a_token_that_is_changed_in_the_middle_of_a_visit(tab: Page, server: Server) -> None:
    tab.goto("/workloads")
    jobs_shown(tab)
    tab.get_by_label("Search workloads").fill("bert")
    expect(tab.locator("main td a").filter(has_text="resnet")).to_have_count(0)
    server.start(OTHER)
    expect(tab.get_by_role("alert")).to_contain_text("does not take this token")
    expect(tab.locator("main td a").filter(has_text="bert")).to_be_visible()
    tab.get_by_label("Token").fill(OTHER)
    tab.keyboard.press("Enter")
    expect(tab.get_by_label("Token")).to_have_count(0)
    # Nothing of what was being done is lost.
    expect(tab.get_by_label("Search workloads")).to_have_value("bert")
    expect(tab.locator("main td a").filter(has_text="bert")).to_be_visible()
    expect(tab.locator(".notice-warning")).to_have_count(0)


def test_a_token_that_is_given_while_an_ask_is_on_its_way(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url, ABSENT) as tab:
        held = Held(tab)
        held.hold()
        tab.goto("/workloads")
        expect(tab.get_by_role("status").filter(has_text="Looking at all workloads")).to_be_visible()
        tab.keyboard.press("Control+k")  # asks for incidents, and learns that a token is wanted
        expect(tab.get_by_label("Token")).to_be_attached()
        tab.keyboard.press("Escape")
        tab.get_by_label("Token").fill(TOKEN)
        tab.keyboard.press("Enter")
        expect(tab.get_by_label("Token")).to_have_count(0)
        held.release()  # which comes without a token, and late
        jobs_shown(tab)


def test_a_file_is_asked_for_with_the_token(tab: Page) -> None:
    tab.goto("/money")
    with tab.expect_download() as downloading:
        tab.get_by_role("button", name="FOCUS CSV").click()
    assert downloading.value.suggested_filename.endswith(".csv")
    assert downloading.value.path().read_text(encoding="utf-8").startswith('"BilledCost",')


def test_a_page_whose_file_never_comes_is_loaded_again_only_once(browser: Browser, server: Server) -> None:
    with watched_tab(browser, server.url, "Failed to load resource") as tab:
        tab.add_init_script(f"sessionStorage['trilens-token'] ??= '{TOKEN}'")
        tab.clock.install()
        tab.route(re.compile(r"/assets/fleet-.*\.js"), lambda route: route.abort())
        tab.goto("/fleet")
        missing = tab.get_by_role("alert").filter(has_text="This page could not be loaded")
        expect(missing).to_contain_text("The window loads itself again")
        with tab.expect_navigation():
            tab.clock.run_for(6000)
        expect(missing).to_contain_text("now again")
        tab.evaluate("window.same = true")
        looked: list[str] = []
        tab.on("request", lambda asked: looked.append(asked.url) if "/healthz" in asked.url else None)
        tab.clock.run_for(60_000)
        assert tab.evaluate("window.same")
        assert looked == []
        tab.unroute(re.compile(r"/assets/fleet-.*\.js"))
        tab.get_by_role("button", name="Reload").click()
        expect(tab.get_by_role("heading", level=1)).to_contain_text("GPU")
