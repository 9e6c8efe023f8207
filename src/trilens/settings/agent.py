"""The agent: what it reads on its node, and where it serves that."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ByteSize, Field, field_validator

from trilens.settings.duration import Duration
from trilens.settings.group import AsWord, Texts
from trilens.settings.service import ServiceSettings


class AgentSettings(ServiceSettings):
    group: ClassVar[str] = "agent"

    listen: str = Field(
        default="127.0.0.1:9334",
        description="Address and port. On anything but loopback a token is required.",
    )
    node_name: str | None = Field(
        default=None, description="What this node is called; the host's own name when it is not set."
    )
    kernel_log: Annotated[str, AsWord] = Field(
        default="auto",
        description="Where Xids are read: `kmsg` (/dev/kmsg), `journal` (journalctl), the path of a file "
        "with the kernel's log, or `off`. `auto` takes kmsg, and the journal where that is not allowed.",
    )
    state_file: Path = Field(
        default=Path("trilens-agent-state.json"),
        description="What was counted in the kernel log, so that a restart does not count it again.",
    )
    gpu_metrics: Annotated[Literal["auto", "on", "off"], AsWord] = Field(
        default="auto",
        description="GPU readings through NVML, under DCGM's names. `auto` leaves them out while a "
        "dcgm-exporter runs on the node.",
    )
    interval: Duration = Field(
        default=timedelta(seconds=15), description="How often processes and pods are looked at."
    )
    proc_dir: Path = Field(default=Path("/proc"), description="The node's /proc, as seen from here.")
    pod_resources: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"),
        description="The kubelet's socket that tells which container has which device.",
    )
    pod_logs: Path = Field(default=Path("/var/log/pods"), description="Where the kubelet keeps pods' output.")
    kubelet_pods: Path = Field(
        default=Path("/var/lib/kubelet/pods"), description="Where the kubelet keeps termination messages."
    )
    output_lines: int = Field(
        default=200,
        ge=0,
        description="How many last lines of a GPU container's output are shown; 0 for none.",
    )
    output_bytes: ByteSize = Field(
        default=ByteSize(64 * 1024), description="How much of the end of an output file is read for that."
    )
    redact: Texts = Field(
        default=(),
        description="Regular expressions of more secrets to black out of output and commands, besides the "
        "usual ones (tokens, passwords, keys, credentials in URLs).",
    )

    @field_validator("redact")
    @classmethod
    def _compile(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as e:
                raise ValueError(f"{pattern!r} is not a regular expression: {e}") from e
        return value

    @field_validator("kernel_log")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ("auto", "kmsg", "journal", "off") and "/" not in value:
            raise ValueError(f"{value!r} is none of auto, kmsg, journal, off, and no path of a file")
        return value
