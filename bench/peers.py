"""The three servers, each started the same way: a data directory, a port, perhaps scrape targets."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import httpx
import psutil
import yaml

# The tests' own parts are used here, too.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from servers import end_with_the_tests


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@dataclass
class Usage:
    cpu_s: float
    rss_mb: float
    file_mb: float  # of that: pages of files, such as the engine's library, that the system may take back


@dataclass
class Peer(ABC):
    """One running server."""

    name: ClassVar[str]
    ready_path: ClassVar[str]
    write_path: ClassVar[str]

    data: Path
    targets: list[str] = field(default_factory=list)
    interval_s: int = 15
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    ready_after_s: float = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @abstractmethod
    def command(self) -> list[str]: ...

    def scrape_document(self) -> dict[str, object]:
        jobs = [{"job_name": "fleet", "static_configs": [{"targets": self.targets}]}] if self.targets else []
        return {"global": {"scrape_interval": f"{self.interval_s}s"}, "scrape_configs": jobs}

    def start(self, timeout_s: float = 300) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        log = (self.data.parent / f"{self.data.name}.log").open("ab")
        began = time.perf_counter()
        self.process = subprocess.Popen(
            self.command(), stdout=log, stderr=log, cwd=self.data.parent, preexec_fn=end_with_the_tests
        )
        while time.perf_counter() - began < timeout_s:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}; see {log.name}")
            try:
                if httpx.get(self.url + self.ready_path, timeout=1).status_code == 200:
                    self.ready_after_s = time.perf_counter() - began
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} was not ready after {timeout_s} s; see {log.name}")

    def usage(self) -> Usage:
        assert self.process is not None
        process = psutil.Process(self.process.pid)
        times, memory = process.cpu_times(), process.memory_info()
        return Usage(times.user + times.system, memory.rss / 1e6, memory.shared / 1e6)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def disk_bytes(self) -> int:
        return sum(f.stat().st_size for f in self.data.rglob("*") if f.is_file())

    def config_file(self) -> Path:
        path = self.data.parent / f"{self.data.name}.yml"
        path.write_text(yaml.safe_dump(self.scrape_document()))
        return path


@dataclass
class Prometheus(Peer):
    name = "Prometheus"
    ready_path = "/-/ready"
    write_path = "/api/v1/write"

    def command(self) -> list[str]:
        return [
            "prometheus",
            f"--config.file={self.config_file()}",
            f"--storage.tsdb.path={self.data}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-remote-write-receiver",
            "--storage.tsdb.retention.time=30d",
            "--log.level=warn",
        ]


@dataclass
class VictoriaMetrics(Peer):
    name = "VictoriaMetrics"
    ready_path = "/health"
    write_path = "/api/v1/write"

    def command(self) -> list[str]:
        return [
            "victoria-metrics",
            f"-storageDataPath={self.data}",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-promscrape.config={self.config_file()}",
            "-retentionPeriod=1y",
            # Its response cache would answer repeated range queries without looking at the data.
            "-search.disableCache",
            "-search.latencyOffset=0s",
            "-loggerLevel=WARN",
        ]


@dataclass
class Trilens(Peer):
    name = "Trilens"
    ready_path = "/readyz"
    write_path = "/api/v1/write"

    def command(self) -> list[str]:
        return [
            str(Path(sys.executable).parent / "trilens"),
            "up",
            f"--config={self.config_file()}",
            f"--data={self.data}",
            f"--listen=127.0.0.1:{self.port}",
        ]

    def scrape_document(self) -> dict[str, object]:
        return {"scrape": super().scrape_document()}


PEERS: tuple[type[Peer], ...] = (Prometheus, VictoriaMetrics, Trilens)


def missing() -> list[str]:
    return [name for name in ("prometheus", "victoria-metrics") if shutil.which(name) is None]
