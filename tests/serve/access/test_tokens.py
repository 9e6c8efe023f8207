"""Tokens: made, shown once, used within their rights, over at last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_access import MemoryTokens
from memory_api import Api
from trilens.model.access_token import AccessToken, digest_of, new_secret, read_token, text_of
from trilens.model.errors import ConfigError, NotFound, RequestError, StoreError
from trilens.model.grants import for_right, grant_of
from trilens.model.identity import Grant, Right
from trilens.serve.access.known_names import KnownNames
from trilens.serve.access.token_keeper import TokenKeeper
from trilens.settings.token_file import read_token_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

BOSS = {"Authorization": "Bearer b0ss"}
READER = grant_of(["read"])


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(overrides={"server.token": "b0ss", "access.failures_per_s": 1000})


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    inside = httpx.ASGITransport(api.build(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as found:
        yield found


async def make(client: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    answer = await client.post("/api/tokens", json={"name": "bot", **wanted}, headers=BOSS)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()["data"]
    return made


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def test_a_token_is_shown_once_and_kept_as_a_hash(api: Api, client: httpx.AsyncClient) -> None:
    made = await make(client, rights=["read"])
    given = read_token(made["secret"])
    assert given is not None
    assert made["secret"].startswith("trl_")
    assert len(given.secret) == 43  # 256 bits in base64
    kept = api.tokens.tokens[given.id]
    assert given.secret not in repr(kept)
    assert kept.digest == digest_of(given.secret)
    listed = await client.get("/api/tokens", headers=BOSS)
    assert given.secret not in listed.text
    assert given.id in listed.text
    assert all(given.secret not in repr(one) for one in api.audit.entries.values())


async def test_a_token_does_what_its_rights_say_until_it_is_revoked(client: httpx.AsyncClient) -> None:
    made = await make(client, rights=["read"])
    headers = bearer(made["secret"])
    assert (await client.get("/api/v1/query?query=1", headers=headers)).status_code == 200
    assert (await client.post("/-/reload", headers=headers)).status_code == 403
    assert (await client.post("/api/tokens", json={}, headers=headers)).status_code == 403
    id = made["token"]["id"]
    revoked = (await client.post(f"/api/tokens/{id}/revoke", headers=BOSS)).json()["data"]
    assert (revoked["state"], revoked["revoked_by"]) == ("revoked", "server token")
    assert (await client.get("/api/v1/query?query=1", headers=headers)).status_code == 401
    assert id not in (await client.get("/api/tokens", headers=BOSS)).text
    assert id in (await client.get("/api/tokens?all=true", headers=BOSS)).text


async def test_a_secret_that_is_nearly_right_is_wrong(client: httpx.AsyncClient) -> None:
    secret = (await make(client, rights=["read"]))["secret"]
    prefix, id, rest = secret.split("_", 2)
    for wrong in (
        secret[:-1],
        secret + "x",
        f"{prefix}_{id}_",
        f"{prefix}_{id}",
        f"{prefix}__{rest}",
        f"other_{id}_{rest}",
        f"{prefix}_aaaaaaaaaaaa_{rest}",
        "trl_é_ü",
    ):
        headers = {"Authorization": f"Bearer {wrong}".encode()}
        assert (await client.get("/api/v1/query?query=1", headers=headers)).status_code == 401, wrong


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"rights": []}, "needs a right"),
        ({"rights": ["root"]}, "is no right"),
        ({"rights": ["admin"], "teams": ["nlp"]}, "admin is for all of it"),
        ({"rights": ["intake"], "teams": ["nlp"]}, "cannot be bound to teams"),
        ({"rights": ["read", "intake"], "teams": ["nlp"]}, "cannot be bound to teams"),
        ({"rights": ["read"], "expires_ms": 1}, "over before it is made"),
        ({"rights": ["read"], "name": ""}, "not a token"),
        ({"rights": ["read"], "secret": "mine"}, "unknown field"),
    ],
)
async def test_tokens_that_make_no_sense(client: httpx.AsyncClient, wanted: Any, why: str) -> None:
    answer = await client.post("/api/tokens", json={"name": "bot", **wanted}, headers=BOSS)
    assert answer.status_code == 400
    assert why in answer.json()["error"]


async def test_a_token_is_made_though_nobody_can_say_who_is_known(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_names: KnownNames, _grant: Grant, _guard: object) -> list[str]:
        raise StoreError("a part is damaged")

    monkeypatch.setattr(KnownNames, "doubts", away)
    wanted = {"name": "bot", "rights": ["read"], "teams": ["nlp"]}
    answer = (await client.post("/api/tokens", json=wanted, headers=BOSS)).json()
    assert read_token(answer["data"]["secret"]) is not None
    assert answer["warnings"] == [
        "whether anybody knows these teams and clusters could not be looked up: a part is damaged"
    ]


def test_one_that_is_over_or_revoked_elsewhere_lets_nobody_in() -> None:
    now = [1000]
    records = MemoryTokens()
    keeper, elsewhere = (TokenKeeper(records, now_ms=lambda: now[0]) for _ in range(2))
    token, _ = keeper.make("short", READER, 2000, "me")
    lasting, _ = keeper.make("long", READER, None, "me")
    assert token.is_valid(1999)
    assert not token.is_valid(2000)
    assert elsewhere.find(lasting.id) is None
    elsewhere.look()
    elsewhere.revoke(lasting.id, "them")
    keeper.note_use(lasting)  # what this one knows of it is old, and must not bring it back
    keeper.look()
    found = keeper.find(lasting.id)
    assert found is not None
    assert not found.is_valid(0)


def test_when_it_was_used_is_written_once_an_hour() -> None:
    now = [10_000_000]
    records = MemoryTokens()
    keeper = TokenKeeper(records, now_ms=lambda: now[0])
    token, _ = keeper.make("bot", READER, None, "me")
    keeper.note_use(token)
    now[0] += 3_599_999
    keeper.note_use(token)
    assert records.tokens[token.id].used_ms == 10_000_000
    now[0] += 1
    keeper.note_use(token)
    assert records.tokens[token.id].used_ms == now[0]


def test_what_is_not_on_disk_is_not_promised() -> None:
    keeper = TokenKeeper(MemoryTokens(is_settled=False))
    with pytest.raises(StoreError):
        keeper.make("bot", READER, None, "me")
    assert keeper.every() == []
    with pytest.raises(NotFound):
        keeper.revoke("unknown", "me")


def test_one_that_was_revoked_stays_so_while_no_disk_takes_it() -> None:
    records = MemoryTokens()
    keeper = TokenKeeper(records)
    token, _ = keeper.make("bot", READER, None, "me")
    records.is_settled = False
    with pytest.raises(StoreError):
        keeper.revoke(token.id, "me")
    records.tokens[token.id] = token  # what a read of the tables finds
    keeper.look()
    found = keeper.find(token.id)
    assert found is not None
    assert found.revoked_by == "me"
    assert not found.is_valid(token.created_ms or 0)


def test_the_file_and_the_records_do_not_wait_for_each_other(tmp_path: Path) -> None:
    class Away(MemoryTokens):
        is_away = False

        def every(self) -> list[AccessToken]:
            if self.is_away:
                raise StoreError("the store does not answer")
            return super().every()

    file, given, records = tmp_path / "tokens.yaml", new_secret(), Away()
    entry = f"id: {given.id}, name: agents, sha256: {digest_of(given.secret)}, rights: [intake]"
    file.write_text(f"tokens: [{{{entry}}}]")
    keeper, elsewhere = TokenKeeper(records, file), TokenKeeper(records)
    made, _ = elsewhere.make("bot", READER, None, "me")
    keeper.look()
    file.write_text("tokens: []")
    records.is_away = True
    with pytest.raises(StoreError):
        keeper.look()
    assert keeper.find(given.id) is None  # taken out, whatever the store says
    assert keeper.find(made.id) is not None
    records.is_away = False
    file.write_text("tokens: [{id: x}]")
    elsewhere.revoke(made.id, "me")
    with pytest.raises(ConfigError):
        keeper.look()
    found = keeper.find(made.id)
    assert found is not None
    assert found.revoked_by == "me"


def test_an_id_that_a_file_has_twice_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    entry = f"{{id: a, name: b, sha256: {'0' * 64}, rights: [read]}}"
    file.write_text(f"tokens: [{entry}, {entry.replace('read', 'admin')}]")
    with pytest.raises(ConfigError, match="'a' is given twice"):
        read_token_file(file)


def test_a_file_declares_tokens_and_is_followed(tmp_path: Path) -> None:
    file, given = tmp_path / "tokens.yaml", new_secret()
    named = f"id: {given.id}, name: agents, sha256: {digest_of(given.secret)}"
    file.write_text(f"tokens: [{{{named}, rights: [intake], clusters: [a]}}]")
    keeper = TokenKeeper(MemoryTokens(), file)
    found = keeper.find(given.id)
    assert found is not None
    assert found.fits(given.secret)
    assert found.grant == Grant(frozenset({Right.INTAKE}), frozenset({"a"}))
    with pytest.raises(RequestError, match="take it out of that file"):
        keeper.revoke(given.id, "me")
    file.write_text("tokens: [{id: x}]")
    with pytest.raises(ConfigError):
        keeper.look()
    assert keeper.find(given.id) is not None  # a file with a mistake in it locks nobody out
    file.write_text("tokens: []")
    keeper.look()
    assert keeper.find(given.id) is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("{id: a, name: b, sha256: xyz, rights: [read]}", "sha256"),
        ("{id: a, name: b, rights: [read]}", "sha256"),
        ("{id: a, name: b, sha256: " + "0" * 64 + ", rights: [admin], teams: [x]}", "admin is for all"),
        ("{id: a, name: b, sha256: " + "0" * 64 + ", rights: [read], colour: red}", "colour"),
        ("{id: a_b, name: b, sha256: " + "0" * 64 + ", rights: [read]}", "id"),
    ],
)
def test_a_file_with_a_mistake_says_where(tmp_path: Path, entry: str, why: str) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens:\n- {entry}\n")
    with pytest.raises(ConfigError, match=why) as caught:
        read_token_file(file)
    assert "tokens.yaml:2" in str(caught.value)


def test_an_expiry_in_a_file_is_a_day_or_a_moment(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    for text, expected in (("2027-01-31", 1801353600000), ("2027-01-31T12:00:00+02:00", 1801389600000)):
        file.write_text(
            f"tokens:\n- {{id: a, name: b, sha256: {'0' * 64}, rights: [read], expires: {text}}}\n"
        )
        assert read_token_file(file)[0].expires_ms == expected


def test_a_text_is_read_back() -> None:
    for _ in range(50):
        made = new_secret()
        assert read_token(text_of(made)) == made
        assert AccessToken(made.id, "x", digest_of(made.secret), READER).fits(made.secret)


def test_what_was_granted_adds_up_and_never_to_more() -> None:
    everywhere, nlp_fix = grant_of(["read"]), grant_of(["fix"], teams=["nlp"])
    assert for_right([everywhere, nlp_fix], Right.READ) == Grant(frozenset({Right.READ}))
    assert for_right([everywhere, nlp_fix], Right.FIX) == Grant(
        frozenset({Right.FIX}), teams=frozenset({"nlp"})
    )
    assert for_right([everywhere, nlp_fix], Right.ADMIN) is None
    # Where reading is asked for, fixing is not granted with it, for its bounds are others.
    assert for_right([nlp_fix, everywhere], Right.READ) == Grant(frozenset({Right.READ}))
    two = [grant_of(["read"], teams=["nlp"]), grant_of(["read"], teams=["cv"])]
    both = for_right(two, Right.READ)
    assert both is not None
    assert both.teams == {"nlp", "cv"}
    apart = [grant_of(["read"], ["a"], ["nlp"]), grant_of(["read"], ["b"], ["cv"])]
    first = for_right(apart, Right.READ)
    assert first is not None
    assert (first.clusters, first.teams) == ({"a"}, {"nlp"})
    wide = for_right([apart[0], grant_of(["read"], ["a", "b"], ["nlp", "cv"])], Right.READ)
    assert wide is not None
    assert (wide.clusters, wide.teams) == ({"a", "b"}, {"nlp", "cv"})
