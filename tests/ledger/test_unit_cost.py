"""In which part of the time that costs what came out of inference servers is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from ledger_nights import NIGHT_MS, workload
from trilens.ledger.answers.unit_cost import Served, served, together
from trilens.ledger.source import ServingMinutes
from trilens.model.gpu import BindingInterval, GpuBinding, GpuKey
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import Facts
from trilens.model.life import MembershipInterval
from trilens.model.workload import GpuUuid, Membership, PodKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAN = float("nan")
CHAT = workload("chat")


def pod(name: str) -> PodKey:
    return PodKey("east", "ml", name, f"uid-{name}")


class Story:
    """One hour of a workload; minutes count from its beginning."""

    def __init__(self) -> None:
        self._members: list[MembershipInterval] = []
        self._bindings: list[BindingInterval] = []
        self._told: dict[str, Sequence[float]] = {}
        self._running: dict[str, Sequence[float]] = {}

    def there(self, name: str, from_minute: float = -60, to_minute: float | None = None) -> Story:
        span = (_ms(from_minute), None if to_minute is None else _ms(to_minute))
        self._members.append(MembershipInterval(Membership(pod(name), CHAT), "gpu-03", *span))
        return self

    def holds(
        self, name: str, from_minute: float = -60, to_minute: float | None = None, gpus: int = 1
    ) -> Story:
        span = (_ms(from_minute), None if to_minute is None else _ms(to_minute))
        for gpu in range(gpus):
            key = GpuKey(GpuUuid(f"GPU-{name}-{gpu}"))
            self._bindings.append(BindingInterval(GpuBinding(key, pod(name), "main", None, ()), *span))
        return self

    def tells(self, name: str, *, at: Mapping[int, float], running: slice | None = None) -> Story:
        """A request count in these minutes; `running`: in which it told how many it had in work."""
        requests, works = np.full(60, NAN), np.full(60, NAN)
        requests[list(at)] = list(at.values())
        if running is not None:
            works[running] = 0
        self._told[name], self._running[name] = requests, works
        return self

    def served(self) -> Served:
        pods = {pod(name)[:3]: row for row, name in enumerate(self._told)}
        requests = np.array([*self._told.values()]).reshape(-1, 60)
        running = np.array([*self._running.values()]).reshape(-1, 60)
        minutes = ServingMinutes(NIGHT_MS, pods, running, requests, 100 * requests)
        facts = Facts(NIGHT_MS, NIGHT_MS + HOUR_MS, members=self._members, bindings=self._bindings)
        return served(facts, minutes)[CHAT]


def _ms(minute: float) -> int:
    return NIGHT_MS + round(minute * 60_000)


def every(minutes: range, many: float = 10) -> dict[int, float]:
    return dict.fromkeys(minutes, many)


def test_all_of_it_is_known_where_its_counters_were_read_all_the_time() -> None:
    found = Story().there("a").holds("a", gpus=4).tells("a", at=every(range(60))).served()
    assert (found.requests, found.tokens, found.share) == (600, 60_000, 1)
    assert (found.told, found.there) == (240.0, 240)


def test_a_gap_in_what_was_read_is_not_known() -> None:
    found = Story().there("a").holds("a").tells("a", at=every(range(45, 60))).served()
    assert (found.requests, found.share) == (150, pytest.approx(0.25))


def test_time_without_a_gpu_cost_nothing_and_does_not_count() -> None:
    """A pod is a member from its creation on, and may wait for a node for long."""
    waited = Story().there("a", 0).holds("a", 50).tells("a", at=every(range(50, 60))).served()
    assert (waited.share, waited.there) == (1, 10)
    router = Story().there("router").tells("router", at=every(range(60))).there("a").holds("a", 50)
    assert (router.served().share, router.served().there) == (1, 10)


def test_what_starts_serves_nothing() -> None:
    """Loading a model takes 20 minutes, which are paid for: the price of what came out has them in it."""
    found = Story().there("a", 0).holds("a", 0.5).tells("a", at=every(range(20, 60))).served()
    assert (found.requests, found.share) == (400, 1)


def test_who_tells_how_much_he_works_tells_also_before_his_first_request() -> None:
    found = Story().there("a").holds("a").tells("a", at=every(range(55, 60)), running=slice(0, 60)).served()
    assert (found.requests, found.share) == (50, 1)


def test_of_replicas_over_several_pods_one_tells_for_all_of_its_own() -> None:
    story = Story().there("a").holds("a").there("a-worker").holds("a-worker")
    assert story.tells("a", at=every(range(60))).served().share == 1
    assert story.tells("a", at=every(range(30, 60))).served().share == pytest.approx(0.5)


def test_a_replica_that_is_not_read_for_a_while_counts_beside_one_that_is() -> None:
    story = Story().there("a").holds("a").there("b").holds("b")
    found = story.tells("a", at=every(range(60))).tells("b", at=every(range(30, 60))).served()
    assert (found.requests, found.share) == (900, pytest.approx(0.75))


def test_of_nobody_who_tells_only_the_time_is_known() -> None:
    found = Story().there("a").holds("a", 30).served()
    assert found == Served(None, None, 0.0, 30)
    read = Story().there("a").holds("a").tells("a", at=every(range(60))).served()
    assert float(together([found, read]).share) == pytest.approx(60 / 90)
    assert together([found, read]).requests == 600


def test_a_pod_that_is_over_and_a_gpu_that_is_held_by_nobody_known() -> None:
    found = Story().there("a").holds("a", -60, 30).tells("a", at=every(range(30))).served()
    assert (found.share, found.there) == (1, 30)
    assert Story().there("a").tells("a", at=every(range(60))).served().share == 1, "nothing to doubt"
