"""`kubectl trilens`: the script that kubectl runs, as the package declares it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from memory_api import Api, running
from trilens.settings.kubectl import current_namespace
from trilens_process import clean_environment
from workload_records import minute, some_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Plugin = Callable[..., subprocess.CompletedProcess[str]]

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
AT = str(minute(25) / 1000)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("records")
    with some_records(folder) as records, running(Api(workloads=records).build()) as base:
        yield base


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    """The script as an installer writes it from the project's own declaration."""
    entry = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]["kubectl-trilens"]
    module, _, function = entry.partition(":")
    script = tmp_path / "kubectl-trilens"
    script.write_text(f"from {module} import {function}\n{function}()\n", encoding="utf-8")

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(script), *arguments],
            capture_output=True,
            text=True,
            env=clean_environment(**environ),
            timeout=60,
            check=False,
        )

    return run


def kubeconfig(file: Path, current: str | None, **namespaces: str | None) -> str:
    contexts = [
        {"name": name, "context": {"cluster": "c"} | ({"namespace": value} if value else {})}
        for name, value in namespaces.items()
    ]
    file.write_text(yaml.safe_dump({"current-context": current, "contexts": contexts}), encoding="utf-8")
    return str(file)


def test_help_has_the_name_that_people_type(plugin: Plugin) -> None:
    said = plugin("workloads", "--help")
    assert "Usage: kubectl trilens workloads " in said.stdout


def test_it_looks_where_kubectl_looks(plugin: Plugin, url: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", "lab", lab="ml", other="default")
    found = plugin("workloads", "--at", AT, "--server", url, KUBECONFIG=config)
    assert {line.split()[0] for line in found.stdout.splitlines()[1:]} == {"ml"}, found.stderr
    everything = plugin("workloads", "-A", "--at", AT, "--server", url, KUBECONFIG=config)
    assert len(everything.stdout.splitlines()) > len(found.stdout.splitlines())
    config = kubeconfig(tmp_path / "config", "other", lab="ml", other="default")
    nothing = plugin("workloads", "--at", AT, "--server", url, KUBECONFIG=config)
    assert (nothing.stdout, nothing.returncode) == ("", 0)
    assert "no workloads in namespace default" in nothing.stderr


def test_show_looks_there_too_unless_told_where(plugin: Plugin, url: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", "other", other="default")
    refused = plugin("show", "train", "--at", AT, "--server", url, KUBECONFIG=config)
    assert refused.returncode == 2
    assert "no workload 'train' in namespace default" in refused.stderr
    for where in (["train", "-n", "ml"], ["pytorchjob/train", "-A"], ["ml/train"]):
        found = plugin("show", *where, "--at", AT, "--server", url, KUBECONFIG=config)
        assert found.stdout.startswith("PyTorchJob.kubeflow.org ml/train"), found.stderr


def test_the_namespace_of_the_current_context(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first", None, lab="from-first")
    second = kubeconfig(tmp_path / "second", "lab", lab="from-second", other="else")
    assert current_namespace({"KUBECONFIG": second}) == "from-second"
    assert current_namespace({"KUBECONFIG": f"{first}:{second}"}) == "from-first"
    assert current_namespace({"KUBECONFIG": kubeconfig(tmp_path / "none", "lab", lab=None)}) == "default"
    assert current_namespace({"KUBECONFIG": str(tmp_path / "missing")}) == "default"
