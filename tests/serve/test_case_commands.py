"""Commands in containers are run for who posts, with the right to, and the audit has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from memory_api import Api
from trilens.model.errors import NotFound
from trilens.model.identity import Grant, Identity, Right

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.serve.cases.wish import Wish


class Wished:
    """Cases of which nobody is found."""

    def __init__(self) -> None:
        self.executes: list[bool] = []

    def read(self, wish: Wish, *_: object) -> None:
        self.executes.append(wish.executes)
        raise NotFound("nobody is called so")


class SessionOf:
    def __init__(self, *grants: Grant) -> None:
        self._grants = grants

    def identify(self, _scope: Scope, _headers: Headers) -> Identity:
        return Identity("ada", "session", self._grants[0], self._grants[1:])


async def ask(api: Api, method: str, path: str, origin: str = "http://localhost") -> int:
    inside = httpx.ASGITransport(api.build())
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        params = {"subject": "train", "exec": "true"}
        answer = await client.request(method, path, params=params, headers={"Origin": origin})
        return answer.status_code


@pytest.mark.parametrize("path", ["/api/why", "/api/case"])
async def test_who_posts_and_may(path: str) -> None:
    cases = Wished()
    nlp = Grant(frozenset({Right.FIX}), teams=frozenset({"nlp"}))
    api = Api(cases=cases, doors=[SessionOf(Grant(frozenset({Right.READ})), nlp)])
    assert await ask(api, "GET", path) == 400
    assert await ask(api, "POST", path, origin="https://evil.example") == 403
    assert cases.executes == []
    assert await ask(api, "POST", path) == 404
    assert cases.executes == [True]
    told = [(one.kind.value, one.route, one.detail) for one in api.audit.entries.values()]
    assert told[1:] == [("change", path, "nvidia-smi in containers of train: nobody is called so")]


@pytest.mark.parametrize("path", ["/api/why", "/api/case"])
async def test_not_a_reader(path: str) -> None:
    cases = Wished()
    assert await ask(Api(cases=cases, doors=[SessionOf(Grant(frozenset({Right.READ})))]), "POST", path) == 403
    assert cases.executes == []
