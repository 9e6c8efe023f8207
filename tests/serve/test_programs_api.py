"""/api/v1/sd/programs from several sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from memory_api import Api, running
from trilens.model.errors import TrilensError
from trilens.model.program import Program
from trilens.model.workload import PodKey, WorkloadKey
from trilens.serve.envelope import on_trilens_error
from trilens.serve.programs import ProgramsApi

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[..., httpx.Response]


class Source:
    def __init__(self, *programs: Program, unread: tuple[str, ...] = ()) -> None:
        self._programs = programs
        self._unread = unread

    def programs(self) -> list[Program]:
        return list(self._programs)

    def unread(self) -> list[str]:
        return list(self._unread)


def program(cluster: str, address: str, rank: int | None = None) -> Program:
    key = WorkloadKey(cluster, "ml", "batch", "Job", "train", "u")
    return Program(address, PodKey(cluster, "ml", "train-0", "p"), key, attempt=0, rank=rank)


def listed(*sources: Source, **params: str) -> httpx.Response:
    app = Starlette(
        routes=[Route("/sd", ProgramsApi(sources).programs)],
        exception_handlers={TrilensError: on_trilens_error},
    )
    with running(app) as url:
        return httpx.get(f"{url}/sd", params=params)


def found(answer: httpx.Response) -> list[tuple[str, str | None]]:
    return [(group["targets"][0], group["labels"].get("__meta_trilens_rank")) for group in answer.json()]


def test_who_registered_is_believed_first_and_clusters_may_share_addresses() -> None:
    registered = Source(program("a", "10.0.0.1:80", rank=7))
    pods = Source(program("a", "10.0.0.1:80"), program("b", "10.0.0.1:80"))
    assert found(listed(registered, pods)) == [("10.0.0.1:80", "7"), ("10.0.0.1:80", None)]
    assert found(listed(registered, pods, cluster="b")) == [("10.0.0.1:80", None)]


def test_a_cluster_that_is_not_read_yet_is_not_an_empty_one() -> None:
    source = Source(program("a", "10.0.0.1:80"), unread=("b",))
    answer = listed(source)
    assert answer.status_code == 503
    assert answer.json()["error"] == "not read through yet: b"
    assert found(listed(source, cluster="a")) == [("10.0.0.1:80", None)]


def test_it_needs_the_token_as_every_route_does() -> None:
    with running(Api(overrides={"server.token": "t0k3n"}).build()) as url:
        assert httpx.get(f"{url}/api/v1/sd/programs").status_code == 401
        signed = {"Authorization": "Bearer t0k3n"}
        answer = httpx.get(f"{url}/api/v1/sd/programs", headers=signed)
        assert (answer.status_code, answer.json()) == (200, [])
