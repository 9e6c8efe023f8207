"""Something that Trilens depends on, behind a proxy: what is asked of a running server while it is away."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
import yaml

from bench.torture.fault_proxy import FaultProxy, Nonsense
from sample_now import write_now
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bench.torture.fault_proxy import Fault

TIMEOUT_S: Final = 20.0  # what has nothing to do with what is away answers; a busy machine takes its time
LOOK_S: Final = 1.0
_DOCTOR_S: Final = 60.0  # it asks that which does not answer
_PATIENCE_S: Final = 300.0


class Surroundings(ExitStack):
    """What runs beside a row until it ends, with its files in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def proxy(self, url: str, nonsense: Sequence[Nonsense] = tuple(Nonsense)) -> FaultProxy:
        return self.enter_context(FaultProxy(int(url.rpartition(":")[2]), nonsense))

    def trilens(self, settings: dict[str, Any]) -> str:
        config = self.folder / "trilens.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        url, _ = self.enter_context(server(self.folder, "--config", str(config)))
        return url

    def log(self) -> str:
        """What the server has said."""
        file = self.folder / "log"
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


class Dependency(ABC):
    """`url` is Trilens'. What is asked here is asked of a running server, over HTTP."""

    row: str  # `away-` and this
    what: str  # it is, in the table
    name: str
    layer: str  # of the doctor, that says it is away
    told_s: float  # by then it is said at the latest, on an idle machine, if it falls silent
    believes: frozenset[Nonsense] = frozenset()  # what nobody can tell from its own words
    has_samples = False  # without which the server is not ready

    def __init__(self, url: str, proxies: Mapping[str, FaultProxy]) -> None:
        """`proxies` are in front of its parts, by their names."""
        self.url = url
        self._proxies = proxies
        self.number = 0

    @classmethod
    @abstractmethod
    def begin(cls, around: Surroundings) -> Self:
        """It behind a proxy, and a server that uses it."""

    def meets(self, fault: Fault) -> None:
        for proxy in self._proxies.values():
            proxy.set(fault)

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """What has to be there when a fault begins."""

    @abstractmethod
    def meanwhile(self) -> None:
        """Something happens that has to be caught up with."""

    @abstractmethod
    def has_caught_up(self) -> bool:
        """An httpx error means "not yet", an AssertionError that it cannot any more."""

    def problems(self) -> list[str]:
        """What the doctor finds wrong in the layer."""
        areas = self._ask("/api/doctor", _DOCTOR_S, fresh="true")["areas"]
        found = (one for area in areas for one in area["found"])
        return [one["what"] for one in found if one["layer"] == self.layer and one["kind"] == "problem"]

    def is_ready(self) -> bool:
        return httpx.get(f"{self.url}/readyz", timeout=TIMEOUT_S).status_code == 200

    def is_well(self) -> bool:
        """Nobody says that anything is wrong with it."""
        return not self.problems() and self.is_ready()

    def unsaid(self) -> set[str]:
        """The parts of which it is not said, by all who should, that they are away."""
        is_said = bool(self.problems()) and self.is_ready() is not self.has_samples
        return set() if is_said else {*self._proxies}

    def believed(self) -> set[str]:
        """Those in whose place something was said last that has to be believed."""
        return {name for name, proxy in self._proxies.items() if proxy.said in self.believes}

    def check_the_rest(self) -> None:
        """A sample that is written is there at once, pages answer, and the server is ready."""
        self.number += 1
        self.write("beside", float(self.number))
        found = self.query("beside")
        assert found == [float(self.number)], f"{self.name} is away, and samples are not there: {found}"
        self.ask("/api/runs")
        self.ask("/api/incidents")
        assert self.is_ready(), f"{self.name} is away, and the server is not ready"

    def write(self, name: str, value: float, **labels: str) -> None:
        try:
            answer = write_now(self.url, name, value, timeout_s=TIMEOUT_S, **labels)
        except httpx.TimeoutException as e:
            raise AssertionError(f"{self.name} is away, and a write takes more than {TIMEOUT_S:g} s") from e
        assert answer.status_code == 204, f"{self.name} is away, and a write is refused: {answer.text}"

    def query(self, query: str) -> list[float]:
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=TIMEOUT_S)
        return [float(one["value"][1]) for one in answer.raise_for_status().json()["data"]["result"]]

    def ask(self, path: str, **params: str) -> Any:
        return self._ask(path, TIMEOUT_S, **params)

    def _ask(self, path: str, within_s: float, **params: str) -> Any:
        try:
            answer = httpx.get(self.url + path, params=params, timeout=within_s)
        except httpx.TimeoutException as e:
            raise AssertionError(f"{self.name} is away, and {path} takes more than {within_s:g} s") from e
        assert answer.status_code == 200, f"{self.name} is away, and {path} says {answer.text}"
        return answer.json()["data"]


def soon(condition: Callable[[], bool], otherwise: str) -> None:
    """One slow answer, of whoever is asked, is no reason to give up."""
    ends_s = time.monotonic() + _PATIENCE_S
    while not _holds(condition):
        assert time.monotonic() < ends_s, otherwise
        time.sleep(LOOK_S)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except httpx.HTTPError:
        return False
