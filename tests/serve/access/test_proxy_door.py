"""Headers that say who asks: believed of a proxy that is trusted, and of nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.datastructures import Headers

from memory_api import Api
from trilens.model.errors import ConfigError
from trilens.model.identity import EVERYTHING, Identity
from trilens.serve.access.callers import Caller, Callers
from trilens.serve.access.gate import Gate
from trilens.serve.app import build_app
from trilens.settings.access import ProxySettings
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PROXY, STRANGER = "10.1.2.3", "192.0.2.7"
GRANTS = [
    {"users": ["ada"], "rights": ["fix"]},
    {"groups": ["ops"], "rights": ["admin"]},
    {"groups": ["nlp"], "rights": ["read"], "teams": ["nlp"]},
]


def api_behind_proxy(**proxy: Any) -> Api:
    return Api(
        overrides={"access.proxy": {"trusted": ["10.0.0.0/8", "fd00::/8"], **proxy}, "access.grants": GRANTS}
    )


async def asked(api: Api, peer: str, path: str = "/auth/me", method: str = "GET", **headers: str) -> Any:
    inside = httpx.ASGITransport(api.build(), client=(peer, 4711))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        return await client.request(method, path, headers=sent)


async def who(api: Api, peer: str, **headers: str) -> str | None:
    name: str | None = (await asked(api, peer, **headers)).json()["data"]["name"]
    return name


async def test_only_a_trusted_connection_is_believed() -> None:
    api = api_behind_proxy()
    assert await who(api, PROXY, X_Forwarded_User="ada") == "ada"
    assert await who(api, "::ffff:10.1.2.3", X_Forwarded_User="ada") == "ada"
    assert await who(api, "fd00::1", X_Forwarded_User="ada") == "ada"
    assert await who(api, STRANGER, X_Forwarded_User="ada") is None
    claims = {"X_Forwarded_For": PROXY, "Forwarded": f"for={PROXY}", "X_Real_IP": PROXY}
    assert await who(api, STRANGER, X_Forwarded_User="ada", **claims) is None
    answer = await asked(api, STRANGER, "/api/v1/query?query=1", X_Forwarded_User="ada")
    assert answer.status_code == 401


async def test_groups_have_what_they_were_granted() -> None:
    api = api_behind_proxy()
    me = (await asked(api, PROXY, X_Forwarded_User="eve", X_Forwarded_Groups="dev, ops,nlp")).json()["data"]
    assert [one["rights"] for one in me["grants"]] == [["admin"], ["read"]]
    assert await who(api, PROXY, X_Forwarded_Groups="ops") is None
    assert await who(api, PROXY, X_Forwarded_User=" ", X_Forwarded_Groups="ops") is None


async def test_who_was_granted_nothing_is_told_so_by_name() -> None:
    api = api_behind_proxy()
    eve = {"X_Forwarded_User": "eve", "X_Forwarded_Groups": "dev"}
    me = (await asked(api, PROXY, **eve)).json()["data"]
    assert (me["name"], me["how"], me["grants"]) == ("eve", "proxy", [])
    for path in ("/api/v1/targets", "/api/nothing/is/here", "/federate"):
        answer = await asked(api, PROXY, path, **eve)
        assert answer.status_code == 403, path
        assert "eve is known, but may do nothing here (whoever runs this server grants it" in answer.text
    assert {(one.who, one.how, one.status) for one in api.audit.entries.values()} == {("eve", "proxy", 403)}
    ready = (await asked(api, PROXY, "/readyz", **eve)).json()
    assert ready == (await asked(api, STRANGER, "/readyz")).json()


async def test_who_was_granted_nothing_by_the_proxy_may_be_known_by_another_door() -> None:
    class Named:
        def identify(self, _scope: Scope, _headers: Headers) -> Identity:
            return Identity("eve", "session", EVERYTHING)

    api = api_behind_proxy()
    access = api._access().access
    for doors in ([*access.doors, Named()], [Named(), *access.doors]):
        inside = httpx.ASGITransport(
            build_app(replace(api.parts(), access=replace(access, doors=doors))), client=(PROXY, 4711)
        )
        async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
            answer = await client.get("/auth/me", headers={"X-Forwarded-User": "eve"})
        assert answer.json()["data"]["how"] == "session"


async def test_two_users_are_nobody() -> None:
    """A proxy that adds its header to those of the client must not let the client choose."""
    inside = httpx.ASGITransport(api_behind_proxy().build(), client=(PROXY, 4711))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        twice = [("X-Forwarded-User", "ada"), ("X-Forwarded-User", "eve")]
        assert (await client.get("/auth/me", headers=twice)).json()["data"]["name"] is None


async def test_groups_that_are_told_twice_are_nobodys() -> None:
    """Nor let him choose his groups."""
    inside = httpx.ASGITransport(api_behind_proxy().build(), client=(PROXY, 4711))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        for own in ("dev", ""):
            told = [("X-Forwarded-User", "ada"), ("X-Forwarded-Groups", "ops"), ("X-Forwarded-Groups", own)]
            assert (await client.get("/auth/me", headers=told)).json()["data"]["name"] is None
        me = (await client.get("/auth/me", headers=[told[0], told[2]])).json()["data"]
    assert [one["rights"] for one in me["grants"]] == [["fix"]], "an empty one is no group"


async def test_a_secret_of_the_proxy_is_asked_for_where_there_is_one() -> None:
    api = api_behind_proxy(secret="between us")
    assert await who(api, PROXY, X_Forwarded_User="ada") is None
    assert await who(api, PROXY, X_Forwarded_User="ada", X_Trilens_Proxy_Secret="guessed") is None
    assert await who(api, PROXY, X_Forwarded_User="ada", X_Trilens_Proxy_Secret="between us") == "ada"


async def test_a_proxy_that_does_not_send_the_secret_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    proxy = ProxySettings(trusted=("10.0.0.0/8",))
    callers = Callers(proxy, "between us", clock_s=lambda: now_s[0])

    def ask(peer: str, **headers: str) -> None:
        raw = [(name.lower().replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        callers.of({"type": "http", "client": (peer, 4711), "headers": raw}, Headers(raw=raw))

    ask(STRANGER, X_Forwarded_User="ada")  # who is no proxy
    ask(PROXY, Authorization="Bearer x")  # a program beside it, which claims nothing
    ask(PROXY, X_Forwarded_User="ada", X_Trilens_Proxy_Secret="between us")
    assert (callers.disbelieved, caplog.records) == ("", [])
    for at_s in (0, 1, 59, 61):
        now_s[0] = float(at_s)
        ask(PROXY, X_Forwarded_User="ada", X_Trilens_Proxy_Secret="guessed")
        assert callers.disbelieved == PROXY
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == [
        "a proxy does not send the secret of access.proxy"
    ] * 2
    assert "guessed" not in caplog.text
    now_s[0] += 601
    assert callers.disbelieved == "", "it was put right since"


def test_a_proxy_that_nobody_named_is_told_of_for_a_while() -> None:
    now_s = [0.0]
    callers = Callers(clock_s=lambda: now_s[0])
    callers.sent(Caller(PROXY, "", is_trusted=False, is_passed_on=True))
    assert callers.unnamed == PROXY
    now_s[0] = 601
    assert callers.unnamed == "", "nothing has come through it since"


async def test_what_a_stranger_claims_is_taken_out_of_the_request() -> None:
    class Seen(Exception):
        pass

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        raise Seen([name for name in Headers(scope=scope) if name.startswith("x-")])

    api = api_behind_proxy(secret="between us")
    gate = Gate(app, api.settings.server, replace(api._access().access, doors=[]))
    claims = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "ops", "X-Forwarded-For": "192.0.2.9"}
    for peer, secret, seen in (
        (STRANGER, "between us", []),
        (PROXY, "guessed", []),
        (PROXY, "between us", [*map(str.lower, claims), "x-trilens-proxy-secret"]),
    ):
        inside = httpx.ASGITransport(gate, client=(peer, 4711))
        async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
            with pytest.raises(Seen) as caught:
                await client.get("/api/v1/targets", headers={**claims, "X-Trilens-Proxy-Secret": secret})
        assert caught.value.args == (seen,)


async def test_without_the_secret_nobody_is_told_to_be_elsewhere() -> None:
    """Else who guesses would be counted under addresses that he makes up, and be audited under them."""
    proxy = {"trusted": ["10.0.0.0/8"], "secret": "between us"}
    api = Api(overrides={"access.proxy": proxy, "access.grants": GRANTS, "access.failures_per_s": 0.1})
    inside = httpx.ASGITransport(api.build(), client=(PROXY, 4711))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        for made_up, status in (("192.0.2.8", 401), ("192.0.2.9", 429)):
            answer = await client.get("/api/v1/targets", headers={"X-Forwarded-For": made_up})
            assert answer.status_code == status
    assert {(one.peer, one.client) for one in api.audit.entries.values()} == {(PROXY, "")}


async def test_a_page_of_another_site_cannot_use_the_word_of_the_proxy() -> None:
    api = api_behind_proxy()
    ops = {"X_Forwarded_User": "eve", "X_Forwarded_Groups": "ops"}
    for foreign in ({}, {"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "same-site"}):
        assert (await asked(api, PROXY, "/-/reload", "POST", **ops, **foreign)).status_code == 403
    for own in ({"Origin": "http://localhost"}, {"Sec_Fetch_Site": "same-origin"}):
        assert (await asked(api, PROXY, "/-/reload", "POST", **ops, **own)).status_code == 200


async def test_the_audit_has_the_client_that_the_proxy_saw() -> None:
    api = api_behind_proxy()
    own = {"Origin": "http://localhost", "X_Forwarded_User": "eve", "X_Forwarded_Groups": "ops"}
    chain = f"203.0.113.9, {STRANGER}, 10.9.9.9"  # the first was told by the client itself
    await asked(api, PROXY, "/-/reload", "POST", X_Forwarded_For=chain, **own)
    (entry,) = api.audit.entries.values()
    assert (entry.who, entry.how, entry.peer, entry.client) == ("eve", "proxy", PROXY, STRANGER)


@pytest.mark.parametrize(
    ("access", "why"),
    [
        ({"proxy": {"trusted": ["10.0.0.0/33"]}, "grants": GRANTS}, "is not a network"),
        ({"proxy": {"trusted": []}, "grants": GRANTS}, "trusted"),
        ({"proxy": {"trusted": ["10.0.0.0/8"]}}, "need grants"),
        ({"grants": GRANTS}, "they need oidc or proxy"),
        ({"proxy": {"trusted": ["10.0.0.0/8"], "user_header": None}, "grants": GRANTS}, "with a user_header"),
        ({"proxy": {"trusted": ["10.0.0.0/8", "0.0.0.0/0"]}, "grants": GRANTS}, "is everybody"),
        ({"proxy": {"trusted": ["::/0"], "user_header": None}}, "is everybody"),
        ({"proxy": {"trusted": ["10.0.0.0/8"]}, "grants": [{"rights": ["read"]}]}, "name users or groups"),
        (
            {"oidc": {"issuer": "http://login.example", "client_id": "x"}, "grants": GRANTS},
            "must be https",
        ),
    ],
)
def test_settings_that_make_no_sense(access: dict[str, Any], why: str) -> None:
    overrides = {f"access.{name}": value for name, value in access.items()}
    with pytest.raises(ConfigError, match=why):
        load_settings(overrides=overrides, environ={})


async def test_one_that_only_speaks_tls_says_from_where_and_not_who() -> None:
    proxy = {"trusted": ["10.0.0.0/8"], "user_header": None}
    api = Api(
        overrides={"access.proxy": proxy, "server.token": "s3cret-s3cret", "access.failures_per_s": 0.1}
    )
    assert await who(api, PROXY, X_Forwarded_User="ada") is None
    inside = httpx.ASGITransport(api.build(), client=(PROXY, 4711))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        for stranger, status in ((STRANGER, 401), (STRANGER, 429), ("192.0.2.8", 401)):
            answer = await client.get("/api/v1/targets", headers={"X-Forwarded-For": stranger})
            assert answer.status_code == status
    await asked(
        api, PROXY, "/-/reload", "POST", X_Forwarded_For="192.0.2.9", Authorization="Bearer s3cret-s3cret"
    )
    told = [(one.kind.value, one.client) for one in api.audit.entries.values()]
    assert told[-1] == ("change", "192.0.2.9")


def test_one_that_only_speaks_tls_is_no_way_in() -> None:
    overrides = {"access.proxy": {"trusted": ["10.0.0.0/8"], "user_header": None}}
    settings = load_settings(overrides={**overrides, "server.listen": "0.0.0.0:9333"}, environ={})
    with pytest.raises(ConfigError, match="this one has no user_header and identifies nobody"):
        settings.required_token()


def test_a_server_for_others_needs_one_way_in() -> None:
    listen = {"server.listen": "0.0.0.0:9333"}
    ways = {"access.proxy": {"trusted": ["10.0.0.0/8"]}, "access.grants": GRANTS}
    for overrides, is_guarded in ((listen, False), ({**listen, **ways}, True)):
        settings = load_settings(overrides=overrides, environ={})
        assert settings.access.has_door == is_guarded
        if is_guarded:
            assert settings.required_token() is None
        else:
            with pytest.raises(ConfigError) as caught:
                settings.required_token()
            for way in ("server.token_file", "access.tokens_file", "access.oidc", "access.proxy"):
                assert way in str(caught.value)
            assert "user_header" not in str(caught.value)
