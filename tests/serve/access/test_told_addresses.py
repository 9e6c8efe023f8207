"""An address that a program tells is asked only where it is its own: against a server that would be hit."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from http_target import Answer, HttpTarget
from memory_api import Api, running
from trilens.collect.config import load_scrape_config
from trilens.collect.http_client import HttpClient
from trilens.collect.reach import EVERYWHERE, LOOPBACK, Reach
from trilens.model.errors import Forbidden, ScrapeError
from trilens.model.workload import PodKey
from trilens.serve.access.name_lookup import NameLookup
from trilens.serve.access.told_addresses import Teller, ToldAddresses
from trilens.serve.app import build_app
from trilens.serve.cluster_jobs import job_maker, jobs_of_clusters
from trilens.serve.delivery_apis import NewSilence
from trilens.serve.openapi import document
from trilens.serve.serving_programs import ServingProcess
from trilens.settings.load import load_settings, validate
from trilens.settings.yaml_file import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.collect.config import ScrapeConfig

METADATA = "169.254.169.254"
POD = PodKey("sandbox", "ml", "p", "u1")
PODS = {"10.7.0.9": [POD], METADATA: [POD], "10.7.0.10": [PodKey("prod", "ml", "p", "u2")]}


@pytest.fixture
def target() -> Iterator[HttpTarget]:
    with HttpTarget() as found:
        yield found


def asking(peer: str) -> Teller:
    return Teller(peer, is_local=peer == "127.0.0.1", pod=POD)


def told(**access: Any) -> ToldAddresses:
    named = {f"access.{name}": value for name, value in access.items()}
    return ToldAddresses(load_settings(overrides=named, environ={}), lambda: PODS)


@pytest.mark.parametrize(
    ("mode", "address", "peer", "is_taken"),
    [
        ("peer", "10.0.0.5:8000", "10.0.0.5", True),
        ("peer", "10.0.0.6:8000", "10.0.0.5", False),
        ("peer", "[fd00::5]:8000", "fd00::5", True),
        ("peer", "10.0.0.5:8000", "::ffff:10.0.0.5", True),  # a socket of both families
        ("peer", "10.7.0.9:8000", "10.0.0.5", False),
        ("pods", "10.7.0.9:8000", "10.0.0.5", True),
        ("pods", "10.7.0.8:8000", "10.0.0.5", False),
        ("pods", f"{METADATA}:80", "10.0.0.5", False),  # whatever a cluster says of its pods
        ("any", "10.7.0.8:8000", "10.0.0.5", True),
        ("any", "127.0.0.1:8000", "10.0.0.5", False),
        ("any", "localhost:8000", "10.0.0.5", False),
        ("any", f"{METADATA}:80", "10.0.0.5", False),
        ("any", f"[::ffff:{METADATA}]:80", "10.0.0.5", False),
        ("any", "[64:ff9b::a9fe:a9fe]:80", "10.0.0.5", False),
        ("any", "[2002:a9fe:a9fe::1]:80", "10.0.0.5", False),
        ("any", "[fd00:ec2::254]:80", "10.0.0.5", False),
        ("any", "[fd00:ec2::23]:80", "10.0.0.5", False),
        ("any", "[fd20:ce::254]:80", "10.0.0.5", False),
        ("any", "[fd00:c1::a9fe:a9fe]:80", "10.0.0.5", False),
        ("any", "[::a9fe:a9fe]:80", "10.0.0.5", False),
        ("any", "[::]:80", "10.0.0.5", False),
        ("any", "[64:ff9b:1::a9fe:a9fe]:80", "10.0.0.5", False),
        ("any", "[fd20:ce::253]:80", "10.0.0.5", True),
        ("any", "[fd00:ec3::254]:80", "10.0.0.5", True),
        ("any", "[fe80::1]:80", "10.0.0.5", False),
        ("any", "0.0.0.0:80", "10.0.0.5", False),
        ("any", "224.0.0.1:80", "10.0.0.5", False),
        ("any", "2130706433:80", "10.0.0.5", False),  # 127.0.0.1 as a number, as some resolvers take it
        ("peer", "127.0.0.1:8000", "127.0.0.1", True),
        ("peer", f"{METADATA}:80", "127.0.0.1", False),
        ("peer", "10.0.0.6:8000", "127.0.0.1", False),
        ("peer", "127.0.0.1:9333", "127.0.0.1", False),  # this very server
        ("any", "no-such-host.invalid:80", "10.0.0.5", False),
    ],
)
async def test_whose_word_is_taken(mode: str, address: str, peer: str, is_taken: bool) -> None:
    policy = told(told_addresses=mode)
    assert (await policy.admitted_or_none(address, asking(peer)) is not None) is is_taken


@pytest.mark.parametrize("address", [METADATA, "127.0.0.1", "::1", "fe80::1", "fd00:ec2::254"])
@pytest.mark.parametrize("mode", ["peer", "pods", "any"])
async def test_nobody_is_at_a_special_address_by_the_word_of_a_proxy(mode: str, address: str) -> None:
    policy, written = told(told_addresses=mode), f"[{address}]:80" if ":" in address else f"{address}:80"
    assert await policy.admitted_or_none(written, Teller(address)) is None


@pytest.mark.parametrize(
    ("pod", "is_taken"),
    [
        (PodKey("sandbox", "ml", "p", "u1"), True),
        (PodKey("sandbox", "", "", "u1"), True),
        (PodKey("", "ml", "p", ""), True),  # of a sender that may tell of any cluster
        (PodKey("sandbox", "", "p", ""), True),  # without an account of a service it knows no namespace
        (PodKey("sandbox", "ml", "other", ""), False),
        (PodKey("sandbox", "other", "p", ""), False),
        (PodKey("sandbox", "ml", "p", "other"), False),
        (PodKey("prod", "ml", "p", ""), False),  # another one, that happens to have its name
        (PodKey("sandbox", "ml", "", ""), False),
        (PodKey("", "", "", ""), False),
    ],
)
async def test_a_pod_tells_of_no_other_pod(pod: PodKey, is_taken: bool) -> None:
    found = await told().admitted_or_none("10.7.0.9:8000", Teller("10.0.0.5", pod=pod))
    assert (found is not None) is is_taken


async def test_networks_are_named_besides_and_special_ones_by_themselves() -> None:
    teller = asking("10.9.9.9")
    assert await told(told_networks=["10.0.0.0/16"]).admitted("10.0.3.4:1", teller) == "10.0.3.4:1"
    with pytest.raises(Forbidden, match="not scraped"):
        await told(told_networks=["0.0.0.0/0"]).admitted(f"{METADATA}:80", teller)
    assert await told(told_networks=["127.0.0.0/8"]).admitted("127.0.0.1:1", teller) == "127.0.0.1:1"


async def test_a_name_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it means the next time makes no difference: the address is kept, and not the name."""
    answers = iter(["10.0.0.5", METADATA])

    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert await told().admitted("rebound.example:8000", asking("10.0.0.5")) == "10.0.0.5:8000"
    with pytest.raises(Forbidden):
        await told().admitted("rebound.example:8000", asking("10.0.0.5"))


class NameServer:
    """Answers when it is told to; but `fast.example` at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.came = threading.Semaphore(0)
        self.answered = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, name: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(name)
        self.came.release()
        assert name == "fast.example" or self.answered.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.5", 0))]


async def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server, names = NameServer(monkeypatch), NameLookup(longest_s=0.05)
    try:
        slow = [names.address_of(f"slow-{n}.example", f"10.0.1.{n}") for n in range(100)]
        assert set(await asyncio.gather(*slow)) == {None}
    finally:
        server.answered.set()
    assert len(server.asked) <= 16, "what nobody waits for any more is not asked"
    assert await NameLookup().address_of("fast.example", "10.0.0.5") == "10.0.0.5"


async def test_who_tells_many_slow_names_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    server, names = NameServer(monkeypatch), NameLookup(longest_s=30.0)
    many = [asyncio.create_task(names.address_of(f"slow-{n}.example", "10.0.0.1")) for n in range(200)]
    try:
        await asyncio.to_thread(lambda: [server.came.acquire(timeout=60) for _ in range(4)])
        assert await names.address_of("fast.example", "10.0.0.2") == "10.0.0.5"
        assert len(server.asked) == 5
        refused = [one for one in many if one.done()]
        assert {one.result() for one in refused} == {None}
        assert len(many) - len(refused) == 128
    finally:
        server.answered.set()
    assert {await one for one in many} == {None, "10.0.0.5"}
    assert await names.address_of("slow.example", "10.0.0.1") == "10.0.0.5", "he may again"


async def test_who_holds_threads_that_nobody_waits_for_has_no_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, names = NameServer(monkeypatch), NameLookup(longest_s=0.05)
    try:
        for n in range(8):
            assert await names.address_of(f"slow-{n}.example", "10.0.0.1") is None
        assert len(server.asked) == 4
    finally:
        server.answered.set()


async def test_a_sender_is_whom_the_request_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of IPv6 all below one network."""
    asked: list[str] = []

    async def address_of(_name: str, sender: str) -> None:
        asked.append(sender)

    names = NameLookup()
    monkeypatch.setattr(names, "address_of", address_of)
    policy = ToldAddresses(load_settings(environ={}), names=names)
    for peer in ("10.0.0.5", "2001:db8::1", "2001:db8::2"):
        assert await policy.admitted_or_none("a.example:80", asking(peer)) is None
    assert asked == ["10.0.0.5", "2001:db8::/64", "2001:db8::/64"]


def test_a_heartbeat_from_elsewhere_does_not_have_loopback_asked(target: HttpTarget) -> None:
    api = Api()
    inside = httpx.ASGITransport(api.build(), client=("10.0.0.5", 4711))  # type: ignore[arg-type]

    async def beat(address: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
            return await client.post("/api/v1/programs/heartbeat", json={"address": address})

    refused = asyncio.run(beat(target.address))
    assert (refused.status_code, refused.json()["errorType"]) == (403, "forbidden")
    assert asyncio.run(beat("10.0.0.5:8000")).status_code == 200
    assert [one.address for one in api.serving.programs()] == ["10.0.0.5:8000"]


def test_a_heartbeat_from_this_machine_may(target: HttpTarget) -> None:
    api = Api()
    with running(api.build()) as url:
        port = target.address.rpartition(":")[2]
        answer = httpx.post(f"{url}/api/v1/programs/heartbeat", json={"address": f"localhost:{port}"})
        assert answer.status_code == 200
    (program,) = api.serving.programs()
    assert program.address in (f"127.0.0.1:{port}", f"[::1]:{port}"), "what was looked at, not the name"


@pytest.mark.parametrize(
    "added",
    [
        {"X-Forwarded-For": "192.0.2.7"},
        {"X-Forwarded-For": "127.0.0.1"},  # as whoever asks may have told the proxy
        {"Forwarded": "for=192.0.2.7"},
        {"Via": "1.1 ingress"},
    ],
)
@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)])
def test_who_comes_through_a_proxy_of_this_machine_is_not_of_it(
    target: HttpTarget, added: dict[str, str], trusted: tuple[str, ...]
) -> None:
    proxy = {"access.proxy": {"trusted": trusted, "user_header": None}} if trusted else {}
    api = Api(overrides=proxy)
    access = api._access()
    with running(build_app(replace(api.parts(), access=access.access)), proxy_headers=False) as url:
        beat = {"address": target.address}
        answer = httpx.post(f"{url}/api/v1/programs/heartbeat", json=beat, headers=added)
    assert answer.status_code == 403
    assert api.serving.programs() == []
    assert access.access.callers.unnamed == ("" if trusted else "127.0.0.1")


@pytest.mark.parametrize(
    ("secret", "client", "told", "status"),
    [
        ("between us", "10.9.0.5", "10.9.0.5:8000", 200),
        ("guessed", "10.9.0.5", "10.9.0.5:8000", 403),
        ("guessed", "10.9.0.5", "10.0.0.7:8000", 200),  # who has no secret is no proxy, but may be a program
        ("guessed", METADATA, f"{METADATA}:80", 403),
        ("between us", METADATA, f"{METADATA}:80", 403),
        ("between us", "127.0.0.1", "127.0.0.1:8000", 403),
    ],
)
def test_the_proxy_says_with_its_secret_who_tells(secret: str, client: str, told: str, status: int) -> None:
    proxy = {"trusted": ["10.0.0.0/16"], "secret": "between us", "user_header": None}
    api = Api(overrides={"access.proxy": proxy, "server.token": "s3cret-s3cret"})
    inside = httpx.ASGITransport(api.build(), client=("10.0.0.7", 4711))  # type: ignore[arg-type]

    async def beat() -> httpx.Response:
        async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as asker:
            claims = {"X-Forwarded-For": client, "X-Trilens-Proxy-Secret": secret}
            headers = {"Authorization": "Bearer s3cret-s3cret", **claims}
            return await asker.post("/api/v1/programs/heartbeat", json={"address": told}, headers=headers)

    assert asyncio.run(beat()).status_code == status


def job(target: str, reach: Reach | None, **more: Any) -> ScrapeConfig:
    section = {"static_configs": [{"targets": [target]}], **more}
    made = load_scrape_config(section, Path(), Place(None), "told")
    return made.within(reach) if reach is not None else made


async def asked(config: ScrapeConfig, url: str) -> str:
    client = HttpClient(config)
    try:
        await client.get(url, {}, timeout_s=30)
    except ScrapeError as e:
        return str(e)
    finally:
        await client.close()
    return ""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_what_a_monitor_leads_to_loopback_is_not_connected_to(target: HttpTarget, host: str) -> None:
    url = f"http://{host}:{target.address.rpartition(':')[2]}/metrics"
    assert "not for targets" in await asked(job(target.address, Reach()), url)
    assert target.requests == []
    assert await asked(job(target.address, Reach((*EVERYWHERE, *LOOPBACK))), url) == ""
    assert len(target.requests) == 1


@pytest.mark.parametrize("way", ["redirect", "proxy"])
async def test_no_redirect_and_no_proxy_leads_there(target: HttpTarget, way: str) -> None:
    """The first hop is allowed here, as it must be on loopback: the next one is another address of it."""
    near = Reach(("127.0.0.1/32",))
    port = target.address.rpartition(":")[2]
    hidden = f"http://127.0.0.2:{port}/secret"
    if way == "proxy":
        config = job(target.address, near, proxy_url=f"http://127.0.0.2:{port}")
        assert "not for targets" in await asked(config, f"http://{target.address}/metrics")
        assert target.requests == []
        return
    target.answers["/metrics"] = Answer(status=302, headers={"Location": hidden})
    assert "not for targets" in await asked(job(target.address, near), f"http://{target.address}/metrics")
    assert [path for path, _ in target.requests if path != "/metrics"] == []


def test_jobs_of_monitors_reach_loopback_only_where_the_server_does() -> None:
    document = {"job_name": "m", "static_configs": [{"targets": ["a:1"]}]}
    near = job_maker(load_settings(overrides={}, environ={}))(document)
    assert near.reach is not None
    assert near.reach.allows("127.0.0.1")
    assert near.reach.allows("::1")
    assert not near.reach.allows(METADATA)
    shared = {"server.listen": "0.0.0.0:9333", "server.token": "x" * 20}
    far = job_maker(load_settings(overrides=shared, environ={}))(document)
    assert far.reach is not None
    assert not far.reach.allows("127.0.0.1")
    assert far.reach.allows("10.1.2.3")


def test_annotations_lead_no_further_than_monitors() -> None:
    clusters = {"prod": {"kubeconfig": "config", "annotations": True}}
    jobs = jobs_of_clusters(validate({"kubernetes": {"clusters": clusters}}), [])
    assert jobs
    assert [one.reach is None or one.reach.allows(METADATA) for one in jobs] == [False] * len(jobs)


def test_no_route_takes_an_address_to_ask() -> None:
    """Receivers, scrape configs and sources are in settings alone; a heartbeat's address is checked above."""
    suspicious = re.compile(r"url|uri|webhook|endpoint|callback|redirect|proxy|target|host", re.IGNORECASE)
    found = [
        (path, method, parameter["name"])
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict)
        for parameter in operation.get("parameters", ())
        if suspicious.search(parameter["name"])
    ]
    assert found == []
    assert not [one for one in msgspec.structs.fields(NewSilence) if suspicious.search(one.name)]
    assert not [one for one in msgspec.structs.fields(ServingProcess) if suspicious.search(one.name)]
