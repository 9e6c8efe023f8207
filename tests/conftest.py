"""What tests of several folders share."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from kubernetes_api import KubernetesServer, kubernetes_server
from kubernetes_client import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """An API server for all tests. Each works in a namespace of its own; none kills it."""
    with kubernetes_server(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


@pytest.fixture
def namespace(kubernetes: KubernetesServer) -> str:
    """A new, empty one on the shared API server; its name also serves for what lies in no namespace."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    kubernetes.client().create(NAMESPACES, {"metadata": {"name": name}})
    return name


@pytest.fixture
def private_kubernetes(tmp_path: Path) -> Iterator[KubernetesServer]:
    """An API server for one test, which may kill it or make it forget."""
    with kubernetes_server(tmp_path) as server:
        yield server
