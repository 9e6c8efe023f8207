"""What tests of several folders share."""

from __future__ import annotations

import re
import sys
import uuid
from functools import cache
from pathlib import Path
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

_TESTS = Path(__file__).parent
_WEB = _TESTS / "web"
_WHOLE = (_TESTS / "together", _WEB)
_TOLD_OF_OUTPUT = 2_000  # characters of what a test's processes wrote, from their end
_TAKES_API_SERVER = re.compile(r"\bkubernetes: KubernetesServer")  # the shared one, by the fixture's name


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    for item in items:
        if any(folder in item.path.parents for folder in _WHOLE):
            item.add_marker(pytest.mark.whole)
    items.sort(key=lambda item: not _shared(item.path) and item.get_closest_marker("long") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """By file; but one process has all that share a demo and a browser, and one all that share an API server.

    (pytest-xdist's own groups do nothing with the node ids of pytest 9.2.)
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return _shared(_TESTS.parent / file) or file

    return ByFile(config, log)


@cache
def _shared(file: Path) -> str:
    """The name of what tests of a file share with those of others; empty for nothing."""
    if _WEB in file.parents:
        return "web"
    seen = (file, file.with_name("conftest.py"))
    texts = [one.read_text("utf-8") for one in seen if one.exists()]
    return "API server" if any(_TAKES_API_SERVER.search(text) for text in texts) else ""


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


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What failed before a test passed at its second run: that is a defect, and nobody sees it else."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.write_sep("_", f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_line(f"{title}: {text[-_TOLD_OF_OUTPUT:]}")


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
