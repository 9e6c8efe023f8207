"""A store for all tests of one file, and a bench for each."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from cure_bench import Bench

from kubernetes_client import NODES, Refused
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(tmp_path_factory.mktemp("data")), upkeep=False)
    yield opened
    opened.close()


@pytest.fixture
def admin(kubernetes: KubernetesServer) -> KubernetesClient:
    return kubernetes.client()


@pytest.fixture
def bench(
    kubernetes: KubernetesServer, admin: KubernetesClient, store: Store, tmp_path: Path, request: Any
) -> Iterator[Bench]:
    name = request.node.name.replace("_", "-")[5:35].strip("-")
    made = Bench(kubernetes, store, tmp_path, f"cure-{name}")
    yield made
    for node in made.nodes:
        with suppress(Refused):  # the test has taken it away
            admin.delete(NODES, node)
