from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from http_target import HttpTarget
from trilens.collect.config import FileSdConfig, HttpSdConfig
from trilens.collect.discovery.file import FileDiscovery, read_targets
from trilens.collect.discovery.http import HttpDiscovery
from trilens.model.errors import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trilens.collect.discovery import TargetLabels


class Published:
    def __init__(self) -> None:
        self.by_source: dict[str, Sequence[TargetLabels]] = {}
        self.times = 0
        self.changed = asyncio.Event()

    def __call__(self, source: str, targets: Sequence[TargetLabels]) -> None:
        self.by_source[source] = targets
        self.times += 1
        self.changed.set()

    def addresses(self) -> list[str]:
        return sorted(target["__address__"] for targets in self.by_source.values() for target in targets)


def groups(*addresses: str, **labels: str) -> str:
    return json.dumps([{"targets": list(addresses), "labels": labels}])


async def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    json_file, yaml_file = tmp_path / "a.json", tmp_path / "b.yml"
    json_file.write_text(groups("one:1", rack="7"))
    yaml_file.write_text("- targets: ['two:2']\n")
    discovery = FileDiscovery(FileSdConfig(files=(tmp_path / "*.json", tmp_path / "b.yml")))
    published = Published()

    discovery.look(published)
    assert published.addresses() == ["one:1", "two:2"]
    assert published.by_source[str(json_file)][0] == {
        "__address__": "one:1",
        "rack": "7",
        "__meta_filepath": str(json_file),
    }

    discovery.look(published)
    assert published.times == 2  # nothing changed, nothing said

    json_file.write_text(groups("one:1", "three:3"))
    (tmp_path / "new.json").write_text(groups("four:4"))
    yaml_file.unlink()
    discovery.look(published)
    assert published.addresses() == ["four:4", "one:1", "three:3"]


@pytest.mark.parametrize(
    "content", ["{", '{"targets": []}', '[{"targets": [1]}]', '[{"labels": {"a": 1}}]', '[{"x": 1}]']
)
async def test_a_broken_file_keeps_its_last_good_targets(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(groups("one:1"))
    discovery = FileDiscovery(FileSdConfig(files=(file,)))
    published = Published()
    discovery.look(published)
    file.write_text(content)
    discovery.look(published)
    assert published.addresses() == ["one:1"]
    file.write_text(groups("five:5", "six:6"))
    discovery.look(published)
    assert published.addresses() == ["five:5", "six:6"]


@pytest.mark.parametrize(
    "content", ["- targets: [1]", "- {targets: [a:1], labels: {1: x}}", "- labels: {a: 1}"]
)
async def test_yaml_that_is_no_text_is_no_target(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.yml"
    file.write_text(content)
    with pytest.raises(DiscoveryError, match=r"group 0: .* texts"):
        read_targets(file)


async def test_a_running_discovery_sees_a_file_that_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(groups("one:1"))
    published = Published()
    task = asyncio.create_task(FileDiscovery(FileSdConfig(files=(file,)), look_every_s=0.01).run(published))
    await asyncio.wait_for(published.changed.wait(), 10)
    published.changed.clear()
    (tmp_path / "next").write_text(groups("two:2"))
    os.replace(tmp_path / "next", file)  # noqa: PTH105  # the way configuration managers write
    await asyncio.wait_for(published.changed.wait(), 10)
    assert published.addresses() == ["two:2"]
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_http_targets_follow_the_endpoint_and_survive_its_failures() -> None:
    published = Published()
    with HttpTarget() as server:
        server.say(groups("one:1", team="ml"), "/sd", content_type="application/json; charset=utf-8")
        url = f"http://{server.address}/sd"
        section = HttpSdConfig(url=url, refresh_interval=timedelta(milliseconds=20), bearer_token="secret")
        task = asyncio.create_task(HttpDiscovery(section).run(published))
        await asyncio.wait_for(published.changed.wait(), 10)
        assert published.by_source[url] == [{"__address__": "one:1", "team": "ml", "__meta_url": url}]
        _, headers = server.requests[0]
        assert headers["Authorization"] == "Bearer secret"

        server.say(b"no", "/sd", status=500)
        while server.asked.acquire(blocking=False):
            pass
        await asyncio.to_thread(server.asked.acquire)  # asked again, and refused
        assert published.addresses() == ["one:1"]

        published.changed.clear()
        server.say(groups("two:2"), "/sd", content_type="application/json")
        while published.addresses() != ["two:2"]:
            published.changed.clear()
            await asyncio.wait_for(published.changed.wait(), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        ("[]", "text/html", "expected JSON"),
        ("[", "application/json", "Expecting value"),
        ("{}", "application/json", "list of target groups"),
    ],
)
async def test_http_answers_that_are_no_target_list(body: str, content_type: str, reason: str) -> None:
    with HttpTarget() as server:
        server.say(body, "/sd", content_type=content_type)
        section = HttpSdConfig(url=f"http://me:hunter2@{server.address}/sd")
        discovery = HttpDiscovery(section)
        with pytest.raises(DiscoveryError, match=reason) as caught:
            await discovery.fetch()
        assert "hunter2" not in str(caught.value)
        await discovery.close()
