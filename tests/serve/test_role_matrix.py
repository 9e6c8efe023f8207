"""Every route of a whole server, asked by every kind of asker: who is let through, and who is turned away.

What each route needs is written here once more, by hand: a route that is added, or whose right is changed,
fails until somebody has thought about who may ask for it.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse

from narrowed_routes import NARROWED
from trilens.model.errors import TrilensError
from trilens.model.identity import Grant, Identity, Right
from trilens.serve.access.access import Access
from trilens.serve.access.gate import Gate
from trilens.serve.access.limits import Limits
from trilens.serve.compose import System
from trilens.serve.envelope import on_trilens_error
from trilens.serve.routes import GuardedRoute
from trilens.settings.load import load_settings
from trilens.settings.server import ServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.types import Scope

NLP, PROD = frozenset({"nlp"}), frozenset({"prod"})
ALL, BOUND = "all", "bound"
INTAKE, READ, FIX, ADMIN = Right.INTAKE, Right.READ, Right.FIX, Right.ADMIN


class Role(NamedTuple):
    grants: tuple[Grant, ...]
    may: dict[Right, str]  # of all, or of what they are bound to


def grant(right: Right, clusters: frozenset[str] | None = None, teams: frozenset[str] | None = None) -> Grant:
    return Grant(frozenset({right}), clusters, teams)


ROLES = {
    "nobody": Role((), {}),
    "intake": Role((grant(INTAKE),), {INTAKE: ALL}),
    "cluster intake": Role((grant(INTAKE, PROD),), {INTAKE: BOUND}),
    "reader": Role((grant(READ),), {READ: ALL}),
    "team reader": Role((grant(READ, None, NLP),), {READ: BOUND}),
    "cluster reader": Role((grant(READ, PROD),), {READ: BOUND}),
    "fixer": Role((grant(FIX),), {READ: ALL, FIX: ALL}),
    "team fixer": Role((grant(FIX, None, NLP),), {READ: BOUND, FIX: BOUND}),
    "reader and team fixer": Role((grant(READ), grant(FIX, None, NLP)), {READ: ALL, FIX: BOUND}),
    "team reader and sender": Role((grant(READ, None, NLP), grant(INTAKE)), {READ: BOUND, INTAKE: ALL}),
    "reader of a team and of a cluster": Role((grant(READ, None, NLP), grant(READ, PROD)), {READ: BOUND}),
    "admin": Role((grant(ADMIN),), dict.fromkeys(Right, ALL)),
}
OTHER_THAN_READ = {
    ("POST", "/api/v1/write"): Right.INTAKE,
    ("POST", "/api/v1/runs/records"): Right.INTAKE,
    ("POST", "/api/v1/programs/heartbeat"): Right.INTAKE,
    ("POST", "/v1/metrics"): Right.INTAKE,
    ("POST", "/v1/traces"): Right.INTAKE,
    ("POST", "/api/v1/import/openmetrics"): Right.ADMIN,
    ("POST", "/api/v1/import/prometheus"): Right.ADMIN,
    ("POST", "/api/v1/import/jobs"): Right.ADMIN,
    ("POST", "/api/v1/import/usage"): Right.ADMIN,
    ("POST", "/api/ledger/recompute"): Right.ADMIN,
    ("POST", "/api/backups"): Right.ADMIN,
    ("GET", "/api/backups/{name}"): Right.ADMIN,
    ("POST", "/api/receivers/{name}/test"): Right.ADMIN,
    ("POST", "/api/silences"): Right.FIX,
    ("POST", "/api/silences/{id}/expire"): Right.FIX,
    ("POST", "/api/why"): Right.FIX,  # which may run a command in a container
    ("POST", "/api/case"): Right.FIX,
    ("POST", "/api/fixes"): Right.FIX,
    ("POST", "/api/fixes/{id}/approve"): Right.FIX,
    ("POST", "/api/fixes/{id}/undo"): Right.FIX,
    ("POST", "/api/incidents/{id}/acknowledge"): Right.FIX,
    ("GET", "/api/tokens"): Right.ADMIN,
    ("POST", "/api/tokens"): Right.ADMIN,
    ("POST", "/api/tokens/{id}/revoke"): Right.ADMIN,
    ("GET", "/api/audit"): Right.ADMIN,
    ("POST", "/-/reload"): Right.ADMIN,
    ("PUT", "/-/reload"): Right.ADMIN,
}
OPEN = re.compile(
    r"/(healthz|readyz|assets/.*|icon\.svg|graph|workloads.*|fleet.*|money|experiments|services|incidents.*"
    r"|explore|doctor|auth/.*)?$"
)


class Wristband:
    """A door that knows who it is by a header: the roles of this test, without a way to get one."""

    def identify(self, _scope: Scope, headers: Headers) -> Identity | None:
        grants = ROLES[headers.get("role", "nobody")].grants
        return Identity(headers["role"], "test", grants[0], grants[1:]) if grants else None


@pytest.fixture(scope="module", params=["own samples", "samples elsewhere"])
def routes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[GuardedRoute]:
    """As they are put together of a whole server, with all pages."""
    folder = tmp_path_factory.mktemp("server")
    elsewhere = {"source.url": "http://127.0.0.1:1"} if request.param == "samples elsewhere" else {}
    settings = load_settings(overrides={"storage.data_dir": str(folder), **elsewhere}, environ={})

    async def made() -> list[GuardedRoute]:
        system = System(settings, None, lambda: settings)
        await system.stop()
        return [one for one in system.app.routes if isinstance(one, GuardedRoute)]

    return asyncio.run(made())


async def let_through(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("let through")


def guarded(routes: Sequence[GuardedRoute], *doors: Wristband) -> Starlette:
    """What stands before the handlers, and nothing behind it."""
    limits = Limits(failures_per_s=1_000)
    return Starlette(
        routes=[
            GuardedRoute(one.path, let_through, sorted(one.methods or ()), one.needs, one.narrowed)
            for one in routes
        ],
        exception_handlers={TrilensError: on_trilens_error},
        middleware=[Middleware(Gate, server=ServerSettings(), access=Access(doors, limits=limits))],
    )


@pytest.fixture
async def client(routes: list[GuardedRoute]) -> AsyncIterator[httpx.AsyncClient]:
    inside = httpx.ASGITransport(guarded(routes, Wristband()))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as found:
        yield found


def every(routes: Sequence[GuardedRoute]) -> list[tuple[str, str]]:
    return [(method, one.path) for one in routes for method in sorted(one.methods or ()) if method != "HEAD"]


def expected(method: str, path: str, role: str) -> int:
    if OPEN.match(path):
        return 200
    if role == "nobody":
        return 401
    needs = OTHER_THAN_READ.get((method, path), READ)
    may = ROLES[role].may.get(needs)
    return 200 if may == ALL or (may == BOUND and (needs is INTAKE or path in NARROWED)) else 403


def asked(path: str) -> str:
    return re.sub(r"\{\w+(:path)?\}", "x", path)


async def test_every_route_for_every_role(routes: list[GuardedRoute], client: httpx.AsyncClient) -> None:
    wrong = []
    for method, path in every(routes):
        for role in ROLES:
            answer = await client.request(method, asked(path), headers={"role": role})
            if answer.status_code != expected(method, path, role):
                wrong.append(f"{method} {path} as {role}: {answer.status_code} {answer.text[:100]}")
    assert wrong == []


async def test_whoever_is_on_this_machine_may_do_all_of_it(routes: list[GuardedRoute]) -> None:
    """Where nobody is asked; but no page that tricked DNS into leading here."""
    inside = httpx.ASGITransport(guarded(routes))
    async with httpx.AsyncClient(transport=inside) as client:
        for method, path in every(routes):
            local = await client.request(method, f"http://localhost{asked(path)}")
            foreign = await client.request(method, f"http://evil.example{asked(path)}")
            told = (method, path, local.status_code, foreign.status_code)
            is_open = OPEN.match(path) and not path.startswith("/auth/")
            assert told == (method, path, 200, 200 if is_open else 403)


def test_the_table_knows_no_route_that_is_not_there(routes: list[GuardedRoute]) -> None:
    there = {*every(routes)}
    assert set(OTHER_THAN_READ) <= there
    assert NARROWED - {path for _, path in there} <= {"/federate"}  # of own samples


async def test_a_refusal_says_what_is_needed(client: httpx.AsyncClient) -> None:
    answer = await client.post("/-/reload", headers={"role": "reader"})
    assert answer.json()["errorType"] == "forbidden"
    assert "needs 'admin', and has read" in answer.json()["error"]
    bound = await client.get("/api/v1/targets", headers={"role": "team reader"})
    assert "team nlp only" in bound.json()["error"]
