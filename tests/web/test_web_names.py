"""Names that people and programs choose: whatever is in them, they are text, and the page holds."""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from many_ranks import PATH, RANKS, SLOW, write_many_ranks
from playwright.sync_api import Browser, Page, expect
from told_machine import FIRST_PID, NODE, Told, asking, told_machine
from watched_tab import watched_tab

from run_records import writer
from servers import until
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator

HIT = "<img src=x onerror=window.hit=1>"
NAMES = (
    HIT,
    "\"'><script>window.hit=1<-script>",  # a slash would be shown as a dash
    "\u202eevil עברית",  # written from the right
    "n" * 300,
    "two\nlines",
    "50% of a&b?c=d#e",
    "${window.hit=1}{{hit}}",
)
METRIC = "DCGM_FI_DEV_GPU_UTIL"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that is told such names in every way there is: an agent, its faults, its metrics, a run."""
    folder = tmp_path_factory.mktemp("names")
    write_many_ranks(folder / "data")
    fault = f"NVRM: Xid (PCI:0000:18:00): 79, {HIT}"
    with (
        told_machine(NAMES, user=HIT, fault=fault, note=HIT) as machine,
        server(folder, "--config", asking(folder, machine)) as (url, _),
    ):
        answer = httpx.post(f"{url}/api/v1/runs/records", content=told_run(machine), timeout=60)
        assert answer.status_code == 200, answer.text
        until(lambda: len(asked(url, "/api/workload-table")["name"]) > len(NAMES) - 1, "no workloads")
        until(lambda: bool(asked(url, "/api/incidents")), "the fault became no incident")
        until(lambda: bool(asked(url, "/api/experiments")), "the run is in no experiment")
        yield url


def asked(url: str, path: str) -> Any:
    return httpx.get(f"{url}{path}", timeout=60).json()["data"]


def told_run(machine: Told) -> bytes:
    now_ms = round(time.time() * 1000)
    steps = range(20)
    batch = {
        "v": 1, "run": "hostile", "rank": 0, "writer": writer(1), "seq": 0, "t_ms": now_ms,
        "facts": {
            "created_ms": machine.started_ms, "experiment": HIT, "name": HIT, "config": {"lr": HIT},
            "tags": {HIT: HIT}, "world_size": 1, "total_steps": 100,
        },
        "process": {
            "started_ms": machine.started_ms, "node": NODE, "pid": FIRST_PID,
            "process_started_ms": machine.started_ms,
        },
        "steps": {
            "n": [*steps], "step": [*steps],
            "start_us": [(now_ms - (30 - n) * 60_000) * 1000 for n in steps],
            "us": [9_000_000] * len(steps), "phases": {HIT: [1_000_000] * len(steps)},
            "values": {"loss": [1 / (1 + n) for n in steps], HIT: [1.0] * len(steps)},
        },
        "checkpoints": [
            {"n": 19, "step": 19, "path": HIT, "start_ms": now_ms, "us": 1000, "ok": False, "error": HIT}
        ],
        "notes": [{"n": 19, "t_ms": now_ms, "kind": "note", "text": HIT, "step": 19}],
        "state": {"heartbeat_s": 600, "step": 19},
    }  # fmt: skip
    return json.dumps(batch).encode() + b"\n"


@contextmanager
def suspicious(browser: Browser, site: str, width: int = 1280) -> Iterator[Page]:
    """Fails where anything of a name was taken for more than text."""
    with watched_tab(browser, site, width=width) as tab:
        fetched: list[str] = []
        tab.on("request", lambda request: fetched.append(request.url))
        yield tab
        no_harm(tab)
        assert [url for url in fetched if url.endswith("/x")] == []


def no_harm(tab: Page) -> None:
    assert tab.evaluate("window.hit") is None
    assert tab.locator("main img, main script, main [onerror]").count() == 0


def settled(tab: Page, path: str) -> None:
    tab.goto(path)
    expect(tab.locator("nav a[aria-current=page]")).to_have_count(1)
    expect(tab.locator(".spinner")).to_have_count(0)
    expect(tab.locator("main .state-failed")).to_have_count(0)


def incident_path(site: str) -> str:
    return f"/incidents/{asked(site, '/api/incidents')[0]['id']}"


def test_they_are_text_on_every_page(browser: Browser, site: str) -> None:
    pages = {
        "/": True,
        "/workloads": True,
        "/fleet": False,
        "/fleet?by=owner": True,
        "/money": False,
        "/experiments": True,
        "/services": False,
        "/incidents": True,
        incident_path(site): True,
        f"/explore?query={METRIC}&view=table": True,
        "/doctor": False,
    }
    with suspicious(browser, site) as tab:
        for path, names_somebody in pages.items():
            settled(tab, path)
            if names_somebody:
                expect(tab.locator("main")).to_contain_text(HIT)
            no_harm(tab)


def test_each_opens_from_the_table_and_by_its_address(browser: Browser, site: str) -> None:
    with suspicious(browser, site) as tab:
        for name in NAMES:
            settled(tab, "/workloads")
            tab.locator("main td a").filter(has_text=name[:8]).first.click()
            expect(tab.get_by_role("heading", level=1)).to_contain_text(name[:8])
            address = tab.url
            assert tab.get_by_role("heading", level=1).text_content() == name
        tab.goto(address)
        expect(tab.get_by_role("heading", level=1)).to_have_text(name)


def test_one_written_from_the_right_turns_nothing_else_around(browser: Browser, site: str) -> None:
    with suspicious(browser, site) as tab:
        settled(tab, "/workloads")
        cell = tab.locator("main td").filter(has_text="עברית").first
        name, where = cell.locator("a").bounding_box(), cell.locator("small, .soft").bounding_box()
        assert name is not None
        assert where is not None
        assert where["x"] >= name["x"] + name["width"]


def test_long_ones_do_not_push_the_page_out_of_a_phone(browser: Browser, site: str) -> None:
    with suspicious(browser, site, width=375) as tab:
        settled(tab, "/workloads")
        tab.get_by_role("link", name=NAMES[3]).click()
        expect(tab.get_by_role("heading", level=1)).to_have_text(NAMES[3])
        wide = {}
        for path in (tab.url, "/", "/workloads", "/experiments", "/incidents", incident_path(site), "/fleet"):
            settled(tab, path)
            wide[path] = tab.evaluate("document.documentElement.scrollWidth")
        assert {path: width for path, width in wide.items() if width > 375} == {}


def test_they_are_found_by_the_palette(browser: Browser, site: str) -> None:
    with suspicious(browser, site) as tab:
        settled(tab, "/doctor")
        tab.keyboard.press("Control+k")
        tab.get_by_role("combobox", name="A page, a workload").fill("onerror 50%")
        found = tab.locator("#palette-list [role=option]")
        expect(found).to_have_count(1)
        expect(found).to_contain_text(f"Job in {HIT}")
        assert tab.locator("dialog img").count() == 0
        tab.keyboard.press("Enter")
        expect(tab.get_by_role("heading", level=1)).to_have_text(NAMES[5])


def test_a_straggler_among_four_thousand_ranks(browser: Browser, site: str) -> None:
    with watched_tab(browser, site) as tab:
        settled(tab, f"{PATH}?range=1h")
        expect(tab.get_by_role("heading", name="Ranks over time")).to_be_visible()
        expect(tab.get_by_text(re.compile(rf"of {RANKS:,} ranks")).first).to_be_visible()
        tab.get_by_role("button", name=re.compile(f"rank {SLOW} on node-{SLOW // 8}")).focus()
        tab.keyboard.press("Enter")
        expect(tab).to_have_url(re.compile(f"rank={SLOW}"))
        expect(tab.get_by_role("img", name=re.compile(f"Step time of rank {SLOW}"))).to_be_visible()
        # The first are listed, then all of them, and few of them are drawn.
        table = tab.get_by_role("group", name="Ranks and GPUs")
        expect(table.get_by_text("GPU-").first).to_be_visible()
        rest = tab.get_by_role("button", name=f"Show all {RANKS:,}")
        expect(tab.get_by_text(f"The first 200 of {RANKS:,}")).to_be_visible()
        rest.click()
        expect(rest).to_have_count(0)
        assert table.locator("tbody tr").count() < 100
