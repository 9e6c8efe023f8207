"""How often somebody may ask, and what an attacker cannot fill."""

from __future__ import annotations

import httpx

from memory_access import MemoryAudit
from memory_api import Api
from trilens.model.audit import AuditKind
from trilens.serve.access.callers import Caller
from trilens.serve.access.limits import Buckets, Limits
from trilens.serve.access.trail import AuditTrail, Deed

QUERY = "/api/v1/query?query=1"


def test_a_bucket_fills_by_itself() -> None:
    now = [0.0]
    buckets = Buckets(2.0, clock_s=lambda: now[0])
    assert [buckets.take("a") for _ in range(20)] == [None] * 20  # ten seconds' worth at once
    assert buckets.take("a") == 1
    assert buckets.take("b") is None
    now[0] = 0.5
    assert buckets.take("a") is None
    assert buckets.take("a") == 1
    now[0] = 1000
    assert [buckets.take("a") for _ in range(21)] == [None] * 20 + [1]


def test_however_many_ask_so_many_are_remembered() -> None:
    buckets = Buckets(0.1, most=100, clock_s=lambda: 0.0)
    assert buckets.take("known") is None
    for at in range(10_000):
        buckets.take(str(at))
        buckets.take("known")
    assert len(buckets) == 100
    assert buckets.take("known") is not None  # who goes on asking is not forgotten


async def answers(api: Api, times: int, peer: str = "192.0.2.1", **headers: str) -> list[httpx.Response]:
    inside = httpx.ASGITransport(api.build(), client=(peer, 1))
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        return [await client.get(QUERY, headers=headers) for _ in range(times)]


async def test_who_asks_too_often_is_told_when_to_come_again() -> None:
    api = Api(overrides={"server.token": "t", "access.requests_per_s": 0.5})
    told = await answers(api, 6, Authorization="Bearer t")
    assert [one.status_code for one in told] == [200] * 5 + [429]
    assert 1 <= int(told[-1].headers["retry-after"]) <= 2
    assert told[-1].json()["errorType"] == "too_many_requests"


async def test_what_is_sent_is_counted_apart() -> None:
    api = Api(overrides={"server.token": "t", "access.requests_per_s": 0.1})
    inside = httpx.ASGITransport(api.build(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        headers = {"Authorization": "Bearer t"}
        told = [(await client.post("/api/v1/write", headers=headers)).status_code for _ in range(5)]
        assert told == [400] * 5  # this one keeps no samples
        assert (await client.get(QUERY, headers=headers)).status_code == 200
        assert (await client.get(QUERY, headers=headers)).status_code == 429


async def test_wrong_guesses_are_limited_and_lock_nobody_else_out() -> None:
    api = Api(overrides={"server.token": "t", "access.failures_per_s": 0.5})
    app = api.build()
    one, other = (httpx.ASGITransport(app, client=(peer, 1)) for peer in ("192.0.2.1", "192.0.2.2"))
    async with (
        httpx.AsyncClient(transport=one, base_url="http://localhost") as guesser,
        httpx.AsyncClient(transport=other, base_url="http://localhost") as neighbour,
    ):
        wrong = {"Authorization": "Bearer guess"}
        told = [(await guesser.get(QUERY, headers=wrong)).status_code for _ in range(6)]
        assert told == [401] * 5 + [429]
        right = {"Authorization": "Bearer t"}
        assert (await guesser.get(QUERY, headers=right)).status_code == 200
        assert (await neighbour.get(QUERY, headers=wrong)).status_code == 401


async def test_guesses_at_readiness_are_guesses() -> None:
    """It answers everybody, and those it knows with more: nobody may find out by it what a token is."""
    api = Api(overrides={"server.token": "t", "access.failures_per_s": 0.5})
    stranger = httpx.ASGITransport(api.build(), client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=stranger, base_url="http://localhost") as client:
        wrong = {"Authorization": "Bearer guess"}
        told = [(await client.get("/readyz", headers=wrong)).status_code for _ in range(6)]
        assert told == [200] * 5 + [429]
        assert (await client.get("/readyz")).status_code == 200  # a probe carries none
    assert {one.kind.value for one in api.audit.entries.values()} == {"refusal"}


async def test_addresses_of_one_site_are_counted_together() -> None:
    api = Api(overrides={"server.token": "t", "access.failures_per_s": 0.1})
    app = api.build()
    told = []
    for at in range(3):
        inside = httpx.ASGITransport(app, client=(f"2001:db8:0:1::{at}", 1))
        async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
            told.append((await client.get(QUERY)).status_code)
    assert told == [401, 429, 429]


def test_the_figures_leave_room_for_a_large_fleet() -> None:
    """1,024 ranks send every 5.1 s; all at once after a restart. 50 people share one token."""
    wanted, clock = Api().settings.access, [0.0]
    found = Limits(wanted.requests_per_s, wanted.intake_requests_per_s, clock_s=lambda: clock[0])
    for at in range(60):
        clock[0] = float(at)
        assert all(found.intake.take("agents") is None for _ in range(1024 if at == 0 else 700))
        assert all(found.requests.take("pages") is None for _ in range(300))


def entry_of(trail: AuditTrail, who: str, peer: str = "p", path: str = "") -> None:
    trail.note(
        AuditKind.REFUSAL, who, "token", Caller(peer, "", is_trusted=False), Deed("GET", "", path, 401)
    )


def test_a_flood_of_refusals_is_few_entries() -> None:
    now, kept = [1_000_000], MemoryAudit()
    trail = AuditTrail(kept, now_ms=lambda: now[0])
    for _ in range(10_000):
        entry_of(trail, "")
    assert [one.count for one in kept.entries.values()] == [1]
    for at in range(10_000):
        entry_of(trail, "", peer=str(at), path=f"/{at}")
    assert len(kept.entries) == 201
    now[0] += 60_000
    trail.look()
    counts = sorted(one.count for one in kept.entries.values())
    assert sum(counts) == 20_000
    assert counts[-2:] == [9801, 10_000]
    entry_of(trail, "")
    assert len(kept.entries) == 202  # of the next minute


def refused_at(trail: AuditTrail, who: str, route: str, peer: str = "p") -> None:
    trail.note(
        AuditKind.REFUSAL, who, "token", Caller(peer, "", is_trusted=False), Deed("GET", route, "", 401)
    )


def test_a_flood_of_strangers_hides_nobody_who_is_known() -> None:
    kept = MemoryAudit()
    trail = AuditTrail(kept)
    for at in range(10_000):
        refused_at(trail, "", "/", peer=str(at))
    refused_at(trail, "eve", "/api/tokens")
    assert [(one.who, one.route) for one in kept.entries.values()][-1] == ("eve", "/api/tokens")


def test_who_tries_everything_hides_neither_others_nor_himself() -> None:
    kept = MemoryAudit()
    trail = AuditTrail(kept)
    for at in range(100):
        refused_at(trail, "eve", f"/{at}", peer=str(at))
        refused_at(trail, "", f"/{at}", peer="stranger")
    for who in ("mallory", ""):
        refused_at(trail, who, "/api/tokens", peer="q")
    trail.close()
    others = [
        (one.who, one.how, one.peer, one.count) for one in kept.entries.values() if one.route == "(others)"
    ]
    assert others == [("eve", "token", "(others)", 50), ("", "token", "stranger", 50)]
    told = [(one.who, one.peer) for one in kept.entries.values() if one.route == "/api/tokens"]
    assert told == [("mallory", "q"), ("", "q")]


def test_of_many_who_are_known_all_are_named_as_far_as_there_is_room() -> None:
    kept = MemoryAudit()
    trail = AuditTrail(kept)
    for at in range(10_000):
        refused_at(trail, f"user {at}", "/api/tokens")
    assert len(kept.entries) == 401
    assert [one.who for one in kept.entries.values()][:400] == [f"user {at}" for at in range(400)]


def test_one_network_is_one_stranger() -> None:
    """Who has an IPv6 network has more addresses in it than anybody could tell apart."""
    kept = MemoryAudit()
    trail = AuditTrail(kept)
    for at in range(100):
        refused_at(trail, "", "/", peer=f"2001:db8:0:1::{at:x}")
    refused_at(trail, "", "/", peer="2001:db8:0:2::1")
    assert [one.peer for one in kept.entries.values()] == ["2001:db8:0:1::0", "2001:db8:0:2::1"]


def test_the_end_of_the_server_tells_what_was_counted() -> None:
    kept = MemoryAudit()
    trail = AuditTrail(kept)
    for _ in range(3):
        entry_of(trail, "eve")
    trail.close()
    assert [one.count for one in kept.entries.values()] == [3]
