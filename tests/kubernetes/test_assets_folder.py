"""tools/kubernetes: where the API server's programs lie, and when it has nothing to do."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "kubernetes"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Trilens keeps what it built; empty."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "trilens"


def tool(*arguments: str) -> str:
    answer = subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=True)
    return answer.stdout + answer.stderr


def make(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("etcd", "kube-apiserver"):
        (folder / name).touch(mode=0o755)


def test_the_folder_lies_in_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool("--where") == f"{cache}/kubernetes-1.20\n"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert tool("--where") == "/home/someone/.cache/trilens/kubernetes-1.20\n"


def test_a_folder_that_was_named_is_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/opt/envtest")
    assert tool("--where") == "/opt/envtest\n"
    assert tool() == ""
    assert not cache.exists()


def test_what_was_made_is_not_made_again(cache: Path) -> None:
    make(cache / "kubernetes-1.20")
    assert tool() == ""


def test_a_second_run_waits_for_the_first_and_takes_what_it_made(cache: Path) -> None:
    cache.mkdir()
    with (cache / "kubernetes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen([TOOL], stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == "waiting for another run of tools/kubernetes\n"
            make(cache / "kubernetes-1.20")
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert second.stdout.read() == ""
    assert second.returncode == 0
