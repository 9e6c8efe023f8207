"""Who did what: every change, and who it was by, whatever the request claims."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx

from memory_api import Api
from servers import until
from trilens.collect.otlp.metrics_receiver import OtlpMetricsReceiver
from trilens.collect.otlp.stats import OtlpMetricsStats
from trilens.model.audit import AuditKind
from trilens.model.errors import BackupError
from trilens.model.fix import Deed, Fix, FixState, FixTarget
from trilens.model.identity import Grant, Identity, Right
from trilens.serve.app import all_routes, build_app
from trilens.serve.backup_keeper import BackupKeeper
from trilens.serve.otlp import OtlpApi
from trilens.settings.storage import StorageSettings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from starlette.datastructures import Headers
    from starlette.types import Scope


class Named:
    """A door that believes a header."""

    def identify(self, _scope: Scope, headers: Headers) -> Identity | None:
        right = headers.get("right")
        return Identity("ada", "session", Grant(frozenset({Right(right)}))) if right else None


class OneFix:
    """Whoever approves or takes back anything does it to this one."""

    async def approve(self, id: str, by: str) -> Fix:
        return Fix(id, 0, Deed.CORDON, FixTarget("lab", "", "Node", "", "n1"), by, "", "", FixState.DONE)

    undo = approve


JOB = '{"id": "1", "user": "ada", "start_ms": 0, "end_ms": 1, "gpus": 1, "model": "H100"}'
SAYS: dict[tuple[str, str], tuple[str, bytes, str]] = {
    ("POST", "/api/fixes"): ("deed=restart&subject=ml/train&do=true", b"", "restart ml/train"),
    ("POST", "/api/fixes/{id}/approve"): ("", b"", "cordon Node n1 (lab): done"),
    ("POST", "/api/fixes/{id}/undo"): ("", b"", "cordon Node n1 (lab): done"),
    ("POST", "/api/why"): ("subject=train&exec=true", b"", "nvidia-smi in containers of train"),
    ("POST", "/api/case"): ("subject=train&exec=true", b"", "nvidia-smi in containers of train"),
    ("POST", "/api/silences"): (
        "",
        b'{"matchers": ["team=nlp"], "to_ms": 1763000000000, "author": "", "comment": ""}',
        "team=nlp until 2025-11-13T02:13:20Z",
    ),
    ("POST", "/api/ledger/recompute"): ("from=1763000000&to=1763003600", b"", "1763000000 to 1763003600"),
    ("POST", "/api/v1/import/jobs"): ("source=slurm&cluster=lab", JOB.encode(), "slurm of lab, from line 1"),
    ("POST", "/api/v1/import/usage"): (
        "source=slurm&cluster=lab&first_line=5",
        b"{}",
        "from line 5, 2 bytes",
    ),
    ("POST", "/api/v1/import/openmetrics"): ("first_line=9", b"# EOF\n", "samples from line 9"),
    ("POST", "/api/v1/import/prometheus"): ("first_line=9", b"up 1\n", "samples from line 9"),
    ("POST", "/api/tokens"): (
        "",
        b'{"name": "ci", "rights": ["read"], "teams": ["nlp"]}',
        "read of team nlp",
    ),
}
# What these did, the route and the object in its path say already, until it is found.
NOTHING_MORE = {
    ("POST", "/api/backups"),
    ("POST", "/api/silences/{id}/expire"),
    ("POST", "/api/tokens/{id}/revoke"),
    ("POST", "/-/reload"),
    ("PUT", "/-/reload"),
    ("POST", "/api/incidents/{id}/acknowledge"),
    ("POST", "/api/receivers/{name}/test"),
    ("GET", "/api/backups/{name}"),
    ("GET", "/api/tokens"),
    ("GET", "/api/audit"),
}


async def ask(api: Api, method: str, path: str, content: bytes = b"{}", **headers: str) -> httpx.Response:
    inside = httpx.ASGITransport(api.build(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        own = {"Origin": "http://localhost", **headers}
        return await client.request(method, path, headers=own, content=content)


async def test_every_route_that_changes_something_or_is_for_admins_is_audited() -> None:
    api = Api(doors=[Named()], cure=OneFix())
    unheard: list[Any] = []
    for route in all_routes(api.parts()):
        for method in sorted(route.methods or ()):
            is_read = method in ("GET", "HEAD")
            if method == "HEAD" or not (
                route.needs is Right.ADMIN or (route.needs is Right.FIX and not is_read)
            ):
                continue
            api.audit.entries.clear()
            query, content, says = SAYS.get((method, route.path), ("", b"{}", ""))
            assert says or (method, route.path) in NOTHING_MORE, (
                f"what is {route.path} to say of what was done?"
            )
            path = route.path.replace("{", "").replace("}", "")
            await ask(api, method, f"{path}?{query}" if query else path, content, right="admin")
            told = [(one.who, one.method, one.route, one.detail) for one in api.audit.entries.values()]
            if [one[:3] for one in told] != [("ada", method, route.path)] or says not in told[0][3]:
                unheard.append((method, route.path, told))
    assert unheard == []


async def test_a_backup_that_fails_after_it_was_begun(tmp_path: Path) -> None:
    def full(*_: Any) -> Any:
        raise BackupError("no space in /backups", hint="free some")

    keeper = BackupKeeper(full, StorageSettings(data_dir=tmp_path))
    api = Api(doors=[Named()], backups=keeper)
    begun = (await ask(api, "POST", "/api/backups", right="admin")).json()["data"]["name"]
    keeper.start()
    until(lambda: keeper.state.failed == begun, "it is never made")
    keeper.stop()
    told = [(one.who, one.kind, one.route, one.status, one.detail) for one in api.audit.entries.values()]
    same = ("ada", AuditKind.CHANGE, "/api/backups")
    assert told == [
        (*same, 200, begun),
        (*same, 503, f"{begun} was not made: no space in /backups (free some)"),
    ]


async def test_reads_and_what_comes_in_are_not() -> None:
    api = Api(doors=[Named()])
    await ask(api, "GET", "/api/v1/query?query=1", right="read")
    await ask(api, "POST", "/api/v1/query?query=1", right="read")
    await ask(api, "POST", "/api/v1/programs/heartbeat", right="intake")
    assert api.audit.entries == {}


async def test_refusals_are_and_the_log_has_them_too(caplog: pytest.LogCaptureFixture) -> None:
    api = Api(doors=[Named()])
    with caplog.at_level(logging.INFO, "trilens.audit"):
        await ask(api, "POST", "/-/reload", right="read")
        await ask(api, "POST", "/-/reload", right="admin", Origin="https://evil.example")
        await ask(api, "GET", "/api/v1/targets")
    told = [(one.kind.value, one.who, one.route, one.status) for one in api.audit.entries.values()]
    assert told == [
        ("refusal", "ada", "/-/reload", 403),
        ("refusal", "ada", "", 403),
        ("refusal", "", "", 401),
    ]
    assert [(one.message, vars(one)["status"]) for one in caplog.records if one.name == "trilens.audit"] == [
        ("audit", 403),
        ("audit", 403),
        ("audit", 401),
    ]


async def test_a_refusal_of_otlp_says_which_cluster_was_told_and_which_may_be() -> None:
    class OfProd:
        def identify(self, _scope: Scope, _headers: Headers) -> Identity:
            return Identity("token:otel", "token 1", Grant(frozenset({Right.INTAKE}), frozenset({"prod"})))

    api = Api(doors=[OfProd()])
    parts = api.parts()
    unused: Any = None  # a sink: it is refused before it comes there
    receiver = OtlpMetricsReceiver(unused, OtlpMetricsStats())
    intake = replace(parts.intake, otlp=OtlpApi(receiver, None, ThreadPoolExecutor(1), 1 << 20))
    point = {"timeUnixNano": "1763000000000000000", "asDouble": 1}
    told = {"key": "k8s.cluster.name", "value": {"stringValue": "lab"}}
    metrics = {
        "resource": {"attributes": [told]},
        "scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [point]}}]}],
    }
    inside = httpx.ASGITransport(build_app(replace(parts, intake=intake)))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        answer = await client.post("/v1/metrics", json={"resourceMetrics": [metrics]})
    assert answer.status_code == 403, answer.text
    (entry,) = api.audit.entries.values()
    assert (entry.kind, entry.who, entry.route) == (AuditKind.REFUSAL, "token:otel", "/v1/metrics")
    assert entry.detail == "this token sends of the cluster prod only, and this is of 'lab'"


async def test_the_api_tells_it_to_admins() -> None:
    api = Api(doors=[Named()])
    await ask(api, "POST", "/-/reload", right="admin")
    told = (await ask(api, "GET", "/api/audit?who=ada", right="admin")).json()["data"]
    assert [(one["who"], one["route"], one["status"], one["count"]) for one in told] == [
        ("ada", "/-/reload", 200, 1)
    ]
    assert [one.kind.value for one in api.audit.entries.values()] == ["change", "read"]
    assert (await ask(api, "GET", "/api/audit?who=eve", right="admin")).json()["data"] == []
