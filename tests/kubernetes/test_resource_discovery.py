"""Which version of a kind is taken, of all that a cluster serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scripted_api import ScriptedApi, scripted_api

from trilens.collect.kubernetes.api import KubeApi
from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.resource_discovery import Found, ResourceDiscovery
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as api:
        yield api


def group(name: str, *versions: str, preferred: str = "") -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": {"version": preferred or versions[0]}}


def serves(*kinds: str, verbs: tuple[str, ...] = ("list", "watch")) -> dict[str, Any]:
    resources = [
        {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": verbs} for kind in kinds
    ]
    status = [{**resource, "name": f"{resource['name']}/status"} for resource in resources]
    return {"resources": status + resources}


async def find(server: ScriptedApi, folder: Path) -> Found:
    api = KubeApi(server.access(folder))
    try:
        return await ResourceDiscovery(api, choose()).find()
    finally:
        await api.close()


def versions(found: Found) -> dict[str, str]:
    return {served.kind.group_kind.kind: served.version for served in found.served}


async def test_the_preferred_version_comes_first(server: ScriptedApi, tmp_path: Path) -> None:
    server.documents["/apis"] = {"groups": [group("ray.io", "v2", "v1", preferred="v1")]}
    server.documents["/apis/ray.io/v1"] = serves("RayJob")
    server.documents["/apis/ray.io/v2"] = serves("RayJob", "RayCluster")
    found = await find(server, tmp_path)
    assert versions(found) == {"Pod": "v1", "RayJob": "v1", "RayCluster": "v2"}
    ray_job = next(served for served in found.served if served.kind.group_kind.kind == "RayJob")
    assert ray_job.path("train") == "/apis/ray.io/v1/namespaces/train/rayjobs"


async def test_then_the_newest(server: ScriptedApi, tmp_path: Path) -> None:
    every = ("odd", "v1alpha9", "v1beta1", "v1beta2", "v2alpha1", "v1")
    server.documents["/apis"] = {"groups": [group("ray.io", *every, preferred="v1")]}
    server.documents["/apis/ray.io/v1"] = serves()
    for version in every[:-1]:
        server.documents[f"/apis/ray.io/{version}"] = serves("RayJob")
    assert versions(await find(server, tmp_path))["RayJob"] == "v1beta2"
    asked = [request.path for request in server.asked if "ray.io" in request.path]
    assert "/apis/ray.io/odd" in asked, "for the two kinds that none of them has"


async def test_what_cannot_be_watched_is_not_served(server: ScriptedApi, tmp_path: Path) -> None:
    server.documents["/apis"] = {"groups": [group("ray.io", "v1")]}
    server.documents["/apis/ray.io/v1"] = serves("RayJob", verbs=("create", "list"))
    assert versions(await find(server, tmp_path)) == {"Pod": "v1"}


async def test_a_group_that_does_not_answer_is_unknown_and_not_gone(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.documents["/apis"] = {"groups": [group("ray.io", "v1")]}
    found = await find(server, tmp_path)
    assert (versions(found), found.unknown) == ({"Pod": "v1"}, {"ray.io": "not found"})


async def test_groups_of_no_interest_are_not_asked_for(server: ScriptedApi, tmp_path: Path) -> None:
    server.documents["/apis"] = {"groups": [group("example.com", "v1")]}
    await find(server, tmp_path)
    assert {request.path for request in server.asked} == {"/api", "/apis", "/api/v1"}


@pytest.mark.parametrize(
    "said",
    [
        {"groups": "none"},
        {},
        {"status": "ok"},
        {"kind": "Status", "status": "Success", "groups": [], "versions": [], "resources": []},
    ],
    ids=str,
)
async def test_what_is_no_discovery_document(
    server: ScriptedApi, tmp_path: Path, said: dict[str, Any]
) -> None:
    for path in ("/apis", "/api"):
        server.documents = {path: said}
        with pytest.raises(KubeApiError, match=f"{path} gave no discovery document"):
            await find(server, tmp_path)
    server.documents = {"/api/v1": said}
    assert "/api/v1 gave no discovery document" in (await find(server, tmp_path)).unknown[""]


async def test_a_cluster_may_have_no_groups_and_a_group_no_resources(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.documents["/apis"] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": None}
    server.documents["/api/v1"] = {"kind": "APIResourceList", "groupVersion": "v1", "resources": None}
    assert await find(server, tmp_path) == Found((), {})
