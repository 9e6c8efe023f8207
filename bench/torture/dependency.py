"""Something that Trilens depends on, behind a proxy: what is asked of a running server while it is away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
import yaml

from bench.torture.fault_proxy import FaultProxy
from sample_now import write_now
from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S: Final = 20.0  # what has nothing to do with what is away answers; a busy machine takes its time
_DOCTOR_S: Final = 60.0  # it asks that which does not answer


class Surroundings(ExitStack):
    """What runs beside a row until it ends, with its files in `folder`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def proxy(self, url: str) -> FaultProxy:
        return self.enter_context(FaultProxy(int(url.rpartition(":")[2])))

    def trilens(self, settings: dict[str, Any]) -> str:
        config = self.folder / "trilens.yaml"
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        url, _ = self.enter_context(server(self.folder, "--config", str(config)))
        return url


class Dependency(ABC):
    """`url` is Trilens'. What is asked here is asked of a running server, over HTTP."""

    row: str  # `away-` and this
    what: str  # it is, in the table
    name: str
    layer: str  # of the doctor, that says it is away

    def __init__(self, url: str, proxy: FaultProxy) -> None:
        self.url = url
        self.proxy = proxy
        self.number = 0

    @classmethod
    @abstractmethod
    def begin(cls, around: Surroundings) -> Self:
        """It behind a proxy, and a server that uses it."""

    @abstractmethod
    def meanwhile(self) -> None:
        """Something happens that has to be caught up with."""

    @abstractmethod
    def has_caught_up(self) -> bool: ...

    def says_so(self) -> bool:
        """The doctor finds something wrong in the layer."""
        areas = self._ask("/api/doctor", _DOCTOR_S, fresh="true")["areas"]
        found = (one for area in areas for one in area["found"])
        return any(one["layer"] == self.layer and one["kind"] == "problem" for one in found)

    def check_the_rest(self) -> None:
        """A sample that is written is there at once, and pages answer."""
        self.number += 1
        self.write("beside", float(self.number))
        found = self.query("beside")
        assert found == [float(self.number)], f"{self.name} is away, and samples are not there: {found}"
        self.ask("/api/runs")
        self.ask("/api/incidents")

    def write(self, name: str, value: float, **labels: str) -> None:
        answer = write_now(self.url, name, value, **labels)
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
