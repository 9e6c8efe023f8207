"""Who works, by what the lease says and a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from trilens.model.errors import KubeApiError
from trilens.serve.replicas import elector as elector_module
from trilens.serve.replicas.election import Election, Held, Timing
from trilens.serve.replicas.elector import Elector
from trilens.serve.replicas.lease import KubernetesLease, LeaseTaken

TIMING = Timing(15.0)


def election(me: str = "a") -> Election:
    return Election(me, f"http://{me}:9333", TIMING)


def taken(by: Election, now_s: float, utc: str = "t0") -> Held:
    wanted = by.due(now_s, utc)
    assert wanted is not None
    by.wrote(wanted, now_s)
    return wanted


def test_the_first_takes_a_lease_that_is_not_there() -> None:
    one = election()
    one.saw(None, 0.0)
    assert taken(one, 0.0) == Held("a", "http://a:9333", 15, "t0", "t0", 0)
    assert one.leads(0.0)


def test_who_holds_it_is_sure_of_it_for_less_than_others_wait() -> None:
    one, other = election("a"), election("b")
    held = taken(one, 0.0)
    other.saw(held, 0.0)  # at the earliest: it cannot be seen before it is written
    assert one.leads(9.9)
    assert not one.leads(10.0)
    assert other.due(14.9, "t") is None
    assert other.due(15.0, "t") is not None


def test_a_renewal_counts_from_when_it_was_sent() -> None:
    one = election()
    taken(one, 0.0)
    renewal = one.due(4.0, "t4")
    assert renewal is not None
    assert (renewal.acquired, renewal.renewed, renewal.transitions) == ("t0", "t4", 0)
    one.wrote(renewal, 4.0)  # though the answer came much later
    assert not one.leads(14.0)


@pytest.mark.parametrize("holder", ["b", ""])
def test_who_sees_that_another_had_it_leads_no_more(holder: str) -> None:
    one = election("a")
    taken(one, 0.0)
    one.saw(Held(holder, "", 15, "t1", "t1", 1), 1.0)
    assert not one.leads(1.0)


def test_clocks_of_others_do_not_count() -> None:
    """A lease renewed in a year long past, or to come, is alive for as long as it changes."""
    other = election("b")
    for second in range(0, 60, 2):
        other.saw(Held("a", "http://a", 15, "2020", f"2031-{second}", 0), float(second))
        assert other.due(float(second), "2026") is None
    assert other.due(58.0 + 15.0, "2026") is not None


def test_a_lease_that_does_not_change_is_over_however_often_it_is_seen() -> None:
    other, held = election("b"), Held("a", "http://a", 15, "t0", "t0", 0)
    for second in range(0, 16, 2):
        other.saw(held, float(second))
    assert other.due(15.0, "t") is not None


def test_one_that_takes_over_counts_it() -> None:
    other = election("b")
    other.saw(Held("a", "http://a", 15, "t0", "t0", 4), 0.0)
    assert taken(other, 20.0, "t20") == Held("b", "http://b:9333", 15, "t20", "t20", 5)


def test_what_was_given_back_is_taken_at_once() -> None:
    one, other = election("a"), election("b")
    taken(one, 0.0)
    given_back = one.gives_back("t1")
    assert given_back is not None
    one.wrote(given_back, 1.0)
    assert not one.leads(1.0)
    other.saw(given_back, 1.0)
    assert other.due(1.0, "t1") is not None
    assert other.leader(1.0) is None


def test_nothing_is_given_back_that_another_has() -> None:
    one = election("a")
    one.saw(Held("b", "http://b", 15, "t0", "t0", 0), 0.0)
    assert one.gives_back("t1") is None


def test_the_leader_is_known_until_its_lease_is_over() -> None:
    one = election()
    one.saw(Held("b", "http://b", 15, "t0", "t0", 0), 0.0)
    found = one.leader(14.0)
    assert found is not None
    assert found.address == "http://b"
    assert one.leader(15.0) is None


class MemoryLease:
    """As the API server has it: a write counts only over what its writer has read."""

    def __init__(self, shared: list[Held]) -> None:
        self._shared = shared
        self._read = -1
        self.is_away = False

    async def read(self) -> Held | None:
        if self.is_away:
            raise KubeApiError("no answer")
        self._read = len(self._shared)
        return self._shared[-1] if self._shared else None

    async def write(self, held: Held) -> None:
        if self.is_away:
            raise KubeApiError("no answer")
        if self._read != len(self._shared):
            raise LeaseTaken
        self._shared.append(held)
        self._read += 1

    async def close(self) -> None:
        pass


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(elector_module, "clock_s", lambda: self.now_s)


def test_of_two_that_take_it_at_once_one_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    shared: list[Held] = []

    async def race() -> list[bool]:
        contests = [election("a"), election("b")]
        leases = [MemoryLease(shared), MemoryLease(shared)]
        for lease in leases:
            await lease.read()
        electors = [Elector(*pair, lambda: None) for pair in zip(contests, leases, strict=True)]
        for one, contest in zip(electors, contests, strict=True):
            contest.saw(None, 0.0)
            await one.turn()
        return [contest.leads(0.0) for contest in contests]

    assert asyncio.run(race()) == [True, False]


def test_one_that_cannot_renew_is_told_before_another_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lost = Clock(monkeypatch), asyncio.Event()

    async def cut_off() -> float:
        lease = MemoryLease([])
        one = Elector(Election("a", "http://a", Timing(0.3)), lease, lost.set)
        one.start()
        await one.won.wait()
        lease.is_away = True
        clock.now_s = 0.21  # two thirds are over
        async with asyncio.timeout(60):
            await lost.wait()
        return clock.now_s

    assert asyncio.run(cut_off()) < 0.3


def test_who_was_paused_does_not_go_on_where_another_was_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is free again when it wakes up; what it remembers is from before."""
    clock, lost = Clock(monkeypatch), asyncio.Event()
    shared: list[Held] = []

    async def pause() -> None:
        one = Elector(Election("a", "http://a", Timing(0.3)), MemoryLease(shared), lost.set)
        one.start()
        await one.won.wait()
        clock.now_s = 600.0
        shared.append(Held("b", "http://b", 15, "t1", "t1", 1))
        shared.append(Held("", "", 1, "t1", "t2", 1))
        async with asyncio.timeout(60):
            await lost.wait()

    asyncio.run(pause())
    assert [held.holder for held in shared[-2:]] == ["b", ""]


def test_a_defect_does_not_end_the_election(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one that holds the lease goes on for ever, and one that waits never takes over."""
    clock, lost = Clock(monkeypatch), asyncio.Event()

    class BrokenLease(MemoryLease):
        is_broken = True

        async def read(self) -> Held | None:
            if self.is_broken:
                self.is_broken = False
                raise ValueError("nobody thought of it")
            return await super().read()

        async def write(self, held: Held) -> None:
            if clock.now_s:
                raise ValueError("nobody thought of it")
            await super().write(held)

    async def work() -> None:
        one = Elector(Election("a", "http://a", Timing(0.3)), BrokenLease([]), lost.set)
        one.start()
        async with asyncio.timeout(60):
            await one.won.wait()
            clock.now_s = 0.21
            await lost.wait()

    asyncio.run(work())


def test_a_renewal_whose_answer_comes_late_counts_from_when_it_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, one = Clock(monkeypatch), election()

    class SlowLease(MemoryLease):
        async def write(self, held: Held) -> None:
            await super().write(held)
            clock.now_s += 9.0

    asyncio.run(Elector(one, SlowLease([]), lambda: None).turn())
    assert one.leads(clock.now_s)
    assert not one.leads(10.0)


def test_who_stops_gives_it_back() -> None:
    shared: list[Held] = []

    async def stop() -> None:
        one = Elector(election(), MemoryLease(shared), lambda: None)
        await one.turn()
        await one.stop()

    asyncio.run(stop())
    assert [held.holder for held in shared] == ["a", ""]


class ApiServer:
    """Hears what is sent; whoever writes over another version than the latest is told of the conflict."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 7

    async def get(self, _path: str) -> bytes:
        if self.lease is None:
            raise KubeApiError("there is none", status=404)
        return msgspec.json.encode(self.lease)

    async def send(self, method: str, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        known = body["metadata"].get("resourceVersion")
        if (method == "POST") != (self.lease is None) or (method == "PUT" and known != str(self.version)):
            raise KubeApiError("the object has been modified", status=409)
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease

    async def close(self) -> None:
        pass


def test_an_answer_that_is_no_lease_is_said_to_be_none() -> None:
    class Odd(ApiServer):
        async def send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
            await super().send(method, path, body)
            return {"metadata": {"resourceVersion": 7}}

    api: Any = Odd()

    async def work() -> None:
        with pytest.raises(KubeApiError, match="lease ops/trilens is not readable"):
            await KubernetesLease(api, "ops", "trilens").write(Held("a", "http://a", 15, "t0", "t0", 0))

    asyncio.run(work())


def test_a_lease_is_written_only_over_what_was_read() -> None:
    api: Any = ApiServer()
    one, other = (KubernetesLease(api, "ops", "trilens") for _ in range(2))
    held = Held("a", "http://a", 15, "t0", "t0", 0)

    async def work() -> None:
        assert await one.read() is await other.read() is None
        await one.write(held)
        with pytest.raises(LeaseTaken):  # there was none when it looked
            await other.write(held)
        assert await other.read() == held
        api.lease["metadata"]["annotations"]["of.others/note"] = "stays"
        await one.read()
        await one.write(held)
        assert api.lease["metadata"]["annotations"]["of.others/note"] == "stays"
        with pytest.raises(LeaseTaken):  # it was renewed since
            await other.write(held)

    asyncio.run(work())
