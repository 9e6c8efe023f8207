"""People with pages open, in a process of their own: `python -m bench.torture.people URL PEOPLE SECONDS
FILE`.

Each opens a page, which asks for what it shows all at once and again every few seconds, as web/src does;
looks at it for a while; and opens another. What each answer took is kept, by page.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from bench.web.questions import Subjects, questions

if TYPE_CHECKING:
    from bench.web.questions import Question

_REFRESH_S: Final = 5.0  # as often as most pages ask
_STAYS_S: Final = (15.0, 90.0)
_TIMEOUT_S: Final = 60.0


class People:
    def __init__(self, session: aiohttp.ClientSession, about: Subjects, ends_s: float) -> None:
        self._session = session
        self._about = about
        self._ends_s = ends_s
        self.took_ms: defaultdict[str, list[float]] = defaultdict(list)
        self.failures: defaultdict[str, int] = defaultdict(int)

    async def one(self, number: int) -> None:
        rng = random.Random(number)
        await asyncio.sleep(rng.uniform(0, _REFRESH_S))
        while time.monotonic() < self._ends_s:
            page = rng.choice([*self._pages()])
            leaves_s = min(self._ends_s, time.monotonic() + rng.uniform(*_STAYS_S))
            while time.monotonic() < leaves_s:
                asked_s = time.monotonic()
                await asyncio.gather(*(self._ask(one) for one in self._pages()[page]))
                await asyncio.sleep(max(0.0, asked_s + _REFRESH_S - time.monotonic()))

    def _pages(self) -> dict[str, list[Question]]:
        every = questions(time.time(), self._about)
        return {page: [*of] for page, of in groupby(every, key=lambda one: one.page.partition(",")[0])}

    async def _ask(self, question: Question) -> None:
        began_s = time.monotonic()
        try:
            async with self._session.get(question.path, params=_params(question.params)) as answer:
                await answer.read()
                if answer.status != 200:
                    self.failures[f"{question.page}: {answer.status}"] += 1
        except (aiohttp.ClientError, TimeoutError) as e:
            self.failures[f"{question.page}: {type(e).__name__}"] += 1
        self.took_ms[question.page].append(round(1000 * (time.monotonic() - began_s), 1))


def _params(params: Any) -> list[tuple[str, str]]:
    pairs = []
    for name, value in params.items():
        pairs += [(name, str(one)) for one in (value if isinstance(value, list) else [value])]
    return pairs


async def _subjects(session: aiohttp.ClientSession) -> Subjects:
    async def data(path: str, **params: str) -> Any:
        async with session.get(path, params=params) as answer:
            return (await answer.json())["data"]

    (run,) = (await data("/api/runs", limit="1"))["runs"]
    name = "/".join(run["workloads"][0][part] for part in ("cluster", "namespace", "kind", "name"))
    return Subjects(name, run["run"], run["experiment"], (await data("/api/gpus"))[0]["uuid"])


async def _work(url: str, people: int, seconds: float) -> People:
    timeout = aiohttp.ClientTimeout(_TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=connector) as session:
        about = await _subjects(session)
        crowd = People(session, about, time.monotonic() + seconds)
        await asyncio.gather(*(crowd.one(number) for number in range(people)))
    return crowd


def main() -> None:
    url, people, seconds, file = sys.argv[1:5]
    crowd = asyncio.run(_work(url, int(people), float(seconds)))
    found = {"took_ms": crowd.took_ms, "failures": crowd.failures}
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
