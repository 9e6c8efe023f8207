"""A real Prometheus and a real VictoriaMetrics that take remote writes, on free ports."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from servers import free_port, require_server, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def prometheus(directory: Path, config: str = "global: {}\n") -> Iterator[str]:
    file = directory / "prometheus.yml"
    file.write_text(config, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        require_server("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
        "--web.enable-remote-write-receiver",
    ]
    with running(command, f"http://{address}/-/ready", log=directory / "log"):
        yield f"http://{address}"


@contextmanager
def victoria_metrics(directory: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    command = [
        require_server("victoria-metrics"),
        f"-storageDataPath={directory / 'data'}",
        f"-httpListenAddr={address}",
        "-search.latencyOffset=0s",  # or it hides the last half minute
    ]
    with running(command, f"http://{address}/health", log=directory / "log"):
        yield f"http://{address}"
