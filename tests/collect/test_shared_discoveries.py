"""Jobs that look for the same share one watch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from trilens.collect.discovery import SharedDiscoveries
from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.discovery import Discovery, Publish, TargetLabels


class Watch:
    """A discovery that a test tells what to find."""

    def __init__(self) -> None:
        self.runs = 0
        self.ended = 0
        self.publish: Publish | None = None
        self.fails = asyncio.Event()

    def troubles(self) -> list[str]:
        return ["refused"]

    async def run(self, publish: Publish) -> None:
        self.runs += 1
        self.publish = publish
        try:
            await self.fails.wait()
            raise RuntimeError("a defect")
        finally:
            self.ended += 1


class Job:
    def __init__(self, discovery: Discovery) -> None:
        self.found: dict[str, Sequence[TargetLabels]] = {}
        self.task = asyncio.create_task(discovery.run(self.found.__setitem__))

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def section(role: str, *names: str) -> KubernetesSdConfig:
    return KubernetesSdConfig.model_validate({"role": role, "namespaces": {"names": names}})


async def test_equal_sections_have_one_watch_until_the_last_job_ends() -> None:
    shared, watch, other = SharedDiscoveries(), Watch(), Watch()
    first = Job(shared.join(section("pod", "ml"), lambda: watch))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watch.publish is not None
    watch.publish("ml", [{"__address__": "a"}])
    assert list(first.found) == ["ml"]

    second = Job(shared.join(section("pod", "ml"), lambda: pytest.fail("there is one already")))
    different = Job(shared.join(section("pod", "web"), lambda: other))
    await asyncio.sleep(0)
    assert second.found == first.found, "who comes later knows at once"
    watch.publish("ml", [])
    assert first.found == second.found == {"ml": []}
    assert different.found == {}
    assert (watch.runs, len(shared)) == (1, 2)
    assert shared.troubles() == ["refused", "refused"], "one of each watch"

    await first.stop()
    assert watch.ended == 0
    await second.stop()
    await different.stop()
    assert (watch.ended, other.ended, len(shared)) == (1, 1, 0)


async def test_a_job_that_is_replaced_goes_on_with_what_was_known() -> None:
    shared, watch = SharedDiscoveries(), Watch()
    before = Job(shared.join(section("pod"), lambda: watch))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watch.publish is not None
    watch.publish("", [{"__address__": "a"}])
    after = shared.join(section("pod"), lambda: pytest.fail("there is one already"))
    await before.stop()
    job = Job(after)
    await asyncio.sleep(0)
    assert job.found == {"": [{"__address__": "a"}]}
    await asyncio.sleep(0)
    assert watch.runs == 2
    assert shared.troubles() == ["refused"], "it still says what is wrong"
    later = Job(shared.join(section("pod"), lambda: pytest.fail("there is one still")))
    await asyncio.sleep(0)
    assert later.found == job.found
    await job.stop()
    await later.stop()
    assert len(shared) == 0


async def test_a_fault_is_told_to_every_job() -> None:
    shared, watch = SharedDiscoveries(), Watch()
    jobs = [Job(shared.join(section("pod"), lambda: watch)) for _ in range(2)]
    await asyncio.sleep(0)
    watch.fails.set()
    results = await asyncio.gather(*(job.task for job in jobs), return_exceptions=True)
    assert [str(result) for result in results] == ["a defect"] * 2
    assert len(shared) == 0
