"""The answers behind the pages of the web app, of a server that watches 10,000 GPUs: how soon they come.

Each is asked for as a page asks for it, and read to its end: once when the fleet is there and nobody has
asked before, then all of them every few seconds, as if every page were open in some tab.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx

from bench.report import table
from bench.web.questions import Question, Subjects, questions
from bench.web.watched import watched

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers import Trilens

GOAL_MS: Final = 200
_ROUND_S: Final = 5.0  # as often as most pages ask
_LEAST: Final = 5


class Asked(NamedTuple):
    question: Question
    took_ms: float
    cpu_ms: float  # of the whole server meanwhile
    size: int  # on the wire


class Timed(NamedTuple):
    first: Asked
    others: tuple[Asked, ...]

    @property
    def p95_ms(self) -> float:
        return quantiles((one.took_ms for one in self.others), n=20, method="inclusive")[-1]


@dataclass(frozen=True)
class WebApiResult:
    gpus: int
    ranks: int
    workloads: int
    past_s: float  # that it took to make the past
    settled_s: float  # from the start until all GPUs are on the map
    cores_before: float  # used while nobody asks
    cores: float  # while all pages are asked for every few seconds
    answers: tuple[Timed, ...]


def run(out: Path, *, gpus: int, repeats: int) -> WebApiResult:
    with watched(out, gpus) as fleet, httpx.Client(base_url=fleet.trilens.url, timeout=60) as client:
        about, workloads = _subjects(client)
        firsts = [_ask(fleet.trilens, client, one) for one in questions(time.time(), about)]
        rounds: list[list[Asked]] = []
        began_s, before = time.perf_counter(), fleet.trilens.usage()
        for _ in range(max(repeats, _LEAST)):
            round_s = time.perf_counter()
            rounds.append([_ask(fleet.trilens, client, one) for one in questions(time.time(), about)])
            time.sleep(max(0.0, _ROUND_S - (time.perf_counter() - round_s)))
        cores = (fleet.trilens.usage().cpu_s - before.cpu_s) / (time.perf_counter() - began_s)
    answers = tuple(
        Timed(first, others) for first, others in zip(firsts, zip(*rounds, strict=True), strict=True)
    )
    return WebApiResult(
        gpus, fleet.ranks, workloads, fleet.past_s, fleet.settled_s, fleet.cores, cores, answers
    )


def _subjects(client: httpx.Client) -> tuple[Subjects, int]:
    """The run that told last with its workload, and a GPU; and how many workloads there are. Asked of what is
    not among the questions: so the first of these is the first."""
    workloads, (run,) = _data(client, "/api/workloads"), _data(client, "/api/runs", limit=1)["runs"]
    name = "/".join(run["workloads"][0][part] for part in ("cluster", "namespace", "kind", "name"))
    gpu = _data(client, "/api/gpus")[0]["uuid"]
    return Subjects(name, run["run"], run["experiment"], gpu), len(workloads)


def _ask(trilens: Trilens, client: httpx.Client, question: Question) -> Asked:
    cpu_s, began_s = trilens.usage().cpu_s, time.perf_counter()
    with client.stream("GET", question.path, params=question.params) as answer:
        answer.raise_for_status()
        size = sum(len(piece) for piece in answer.iter_raw())
    took_ms = 1000 * (time.perf_counter() - began_s)
    return Asked(question, took_ms, 1000 * (trilens.usage().cpu_s - cpu_s), size)


def _data(client: httpx.Client, path: str, **params: Any) -> Any:
    return client.get(path, params=params).raise_for_status().json()["data"]


def shown(found: WebApiResult) -> str:
    rows = [
        (
            one.first.question.page,
            f"`{one.first.question.shown}`",
            f"{one.first.took_ms:.0f} ms",
            f"{median(each.took_ms for each in one.others):.0f} / {one.p95_ms:.0f} / "
            f"{max(each.took_ms for each in one.others):.0f} ms",
            f"{mean(each.cpu_ms for each in one.others):.0f} ms",
            f"{one.others[-1].size / 1000:,.0f} kB",
        )
        for one in found.answers
    ]
    late = [one.first.question.page for one in found.answers if one.p95_ms > GOAL_MS]
    late_at_first = [one.first.question.page for one in found.answers if one.first.took_ms > GOAL_MS]
    size = (
        f"{found.gpus:,} GPUs, {found.workloads:,} workloads, one of {found.ranks:,} ranks that tell of "
        f"their steps; twelve hours of it in the store (made in {found.past_s:.0f} s), scraped every 30 s; "
        f"all GPUs on the map {found.settled_s:.0f} s after the start, asked three minutes later. "
        "All answers are asked for in turn, "
        f"every {_ROUND_S:.0f} s: {found.cores:.2f} cores, against {found.cores_before:.2f} while nobody "
        "asks. CPU is of the whole server while it answers. "
        f"Goal: {GOAL_MS} ms at the 95th percentile; missed by: {', '.join(late) or 'none'}; "
        f"by who asks first: {', '.join(late_at_first) or 'none'}."
    )
    head = ("page", "asked", "first", "median / 95 % / slowest", "CPU", "on the wire")
    return "\n\n".join(["## Answers behind the pages", size, table(head, rows)])
