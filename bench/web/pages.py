"""The pages of the web app in Chromium, of a server that watches 10,000 GPUs: when each can be used, and how
long frames get while the pointer moves over the charts of a workload with 4,096 ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

import trilens
from bench.report import table
from bench.web.browser import Moving, Opening, chromium, moved_over, opened, script_kilobytes, tab
from bench.web.watched import watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

GOAL_MS: Final = 1000
GOAL_FRAME_MS: Final = 50
GOAL_KILOBYTES: Final = 250
_BUILT: Final = Path(trilens.__file__).parent / "serve" / "web" / "dist"
_CHARTS: Final = ".u-over, .under-charts canvas"


class Shown(NamedTuple):
    """`useful` selects what people open the page for."""

    page: str
    path: str
    useful: str


class Opened(NamedTuple):
    shown: Shown
    first: Opening  # nobody has asked the server for it before
    others: tuple[Opening, ...]


@dataclass(frozen=True)
class WebPagesResult:
    gpus: int
    ranks: int
    pages: tuple[Opened, ...]
    moving: Moving
    script_kb: float  # of all pages together


def run(out: Path, *, gpus: int, repeats: int) -> WebPagesResult:
    with watched(out, gpus) as fleet:
        return measured(fleet.trilens.url, repeats=repeats)


def measured(site: str, *, repeats: int) -> WebPagesResult:
    """Of any server that is there."""
    with httpx.Client(base_url=site, timeout=120) as client, chromium() as browser:
        pages = _pages(client)
        found = [_opened(browser, site, one, repeats) for one in pages]
        workload = next(one for one in pages if one.page == "A workload")
        with tab(browser, site) as page:
            opened(page, workload.path, workload.useful)
            moving = moved_over(page, _CHARTS, GOAL_FRAME_MS)
        gpus = len(set(_data(client, "/api/fleet")["gpus"]["uuid"]))
        ranks = _data(client, f"/api{workload.path}/ranks")["ranks_known"]
    return WebPagesResult(gpus, ranks, tuple(found), moving, script_kilobytes(_BUILT))


def _opened(browser: Browser, site: str, shown: Shown, repeats: int) -> Opened:
    openings = []
    for _ in range(1 + repeats):
        with tab(browser, site) as page:
            openings.append(opened(page, shown.path, shown.useful))
    return Opened(shown, openings[0], tuple(openings[1:]))


def _pages(client: httpx.Client) -> list[Shown]:
    """Of one workload, the largest that tells of its ranks; of one GPU and one incident, the first."""
    workloads, fleet = _data(client, "/api/workload-table"), _data(client, "/api/fleet")
    telling = [at for at, run in enumerate(workloads["run"]) if run is not None] or range(
        len(workloads["name"])
    )
    largest = max(telling, key=lambda at: workloads["gpus"][at])
    name = "/".join(workloads[part][largest] for part in ("cluster", "namespace", "kind", "name"))
    uuids = [uuid for uuid in fleet["gpus"]["uuid"] if uuid is not None]
    incidents = _data(client, "/api/incidents")
    wanted = [
        Shown("Now", "/", ".now-headline"),
        Shown("Workloads", "/workloads", "tbody tr"),
        Shown("A workload", f"/workloads/{name}", ".under-charts canvas"),
        Shown("Fleet", "/fleet", "canvas"),
        Shown("Money", "/money", "tbody tr"),
        Shown("Experiments", "/experiments", "h1"),
        Shown("Services", "/services", "h1"),
        Shown("Incidents", "/incidents", "h1"),
        Shown("Explore", "/explore?query=avg(DCGM_FI_DEV_GPU_UTIL)", "canvas, tbody tr"),
        Shown("Doctor", "/doctor", "h1"),
    ]
    if uuids:
        wanted.append(Shown("A GPU", f"/fleet/gpus/{uuids[0]}", ".u-over"))
    if incidents:
        wanted.append(Shown("An incident", f"/incidents/{incidents[0]['id']}", "h1"))
    return wanted


def _data(client: httpx.Client, path: str) -> Any:
    return client.get(path).raise_for_status().json()["data"]


def shown(found: WebPagesResult) -> str:
    rows = [
        (
            one.shown.page,
            f"{one.first.usable_ms:,.0f} ms",
            f"{_median(one, 'usable_ms'):,.0f} / {max(each.usable_ms for each in one.others):,.0f} ms",
            f"{one.first.answers} in {_median(one, 'waited_ms'):,.0f} ms",
            f"{_median(one, 'busy_ms'):,.0f} ms",
            f"{one.first.script_kb:.0f} kB",
        )
        for one in found.pages
    ]
    late = [one.shown.page for one in found.pages if max(each.usable_ms for each in one.others) > GOAL_MS]
    moving = found.moving
    text = (
        f"{found.gpus:,} GPUs. From the navigation, in a tab with an empty cache, until what the page is for "
        "is drawn, nothing loads any more and the main thread is idle; its CPU time. Goal: "
        f"{GOAL_MS:,} ms; missed by: {', '.join(late) or 'none'}. All scripts together are "
        f"{found.script_kb:.0f} kB with gzip (goal: {GOAL_KILOBYTES})."
    )
    frames = (
        f"The pointer over the charts and the rank map of a workload with {found.ranks:,} ranks, 12 h: "
        f"{moving.moves} moves, {moving.frames:,} frames, median {moving.median_ms:.0f} ms, longest "
        f"{moving.longest_ms:.0f} ms, {moving.over} longer than {GOAL_FRAME_MS} ms (goal: none). The longest "
        f"task of the main thread took {moving.longest_task_ms:.0f} ms, "
        f"{moving.longest_task_cpu_ms:.0f} ms of it CPU time."
    )
    head = ("page", "first time", "then, median / slowest", "answers", "main thread", "scripts")
    return "\n\n".join(["## Pages in Chromium", text, table(head, rows), frames])


def _median(one: Opened, field: str) -> float:
    return float(median(getattr(each, field) for each in one.others))
