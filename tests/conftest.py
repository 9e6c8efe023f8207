"""What tests of several folders share."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from kubernetes_api import KubernetesServer, kubernetes_server
from kubernetes_client import NAMESPACES
from servers import logs_of_running
from trilens.serve import lean

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

_WEB = "tests/web/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """By file, but tests of the web app stay together: they share a demo and a browser."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _WEB if nodeid.startswith(_WEB) else super()._split_scope(nodeid)

    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """A server keeps pandas out of its process. This one is not its alone: other tests need pandas."""
    sys.meta_path[:] = [one for one in sys.meta_path if getattr(one, "__module__", "") != lean.__name__]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += logs_of_running()
    return report


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


@pytest.fixture(scope="module")
def kubernetes_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    with kubernetes_server(tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


@pytest.fixture
def private_kubernetes(kubernetes_of_module: KubernetesServer) -> KubernetesServer:
    """An API server for the tests of one module, which may kill it, make it forget, and define kinds.

    What one of them made is there for the next: to start an API server takes as long as ten of them.
    """
    if not kubernetes_of_module.runs:
        kubernetes_of_module.start()
    return kubernetes_of_module
