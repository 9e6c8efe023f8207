"""The end of what a pod's containers wrote, this run and the one before, and why they said they ended."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RUN: Final = re.compile(r"(\d+)\.log")
_CRI: Final = re.compile(
    r"(?P<time>\S+) (?P<stream>stdout|stderr) (?P<part>[FP])(?::\S*)? (?P<text>.*)", re.DOTALL
)
_MESSAGE_BYTES: Final = 4096  # the kubelet takes no more either
_RUNS: Final = 2  # the last one, and the one before it


class PodName(NamedTuple):
    namespace: str
    name: str
    uid: str


class PodOutput:
    """`logs` is /var/log/pods, `kubelet` is /var/lib/kubelet/pods. What cannot be read is left out."""

    def __init__(
        self, logs: Path, kubelet: Path, *, lines: int, size: int, redact: Callable[[str], str]
    ) -> None:
        self._logs = logs
        self._kubelet = kubelet
        self._lines = lines
        self._bytes = size
        self._redact = redact

    def pods(self) -> dict[str, PodName]:
        """All pods with output on this node, by uid: their folders are called NAMESPACE_NAME_UID."""
        found = (PodName(*parts) for name in _names(self._logs) if len(parts := name.split("_")) == 3)
        return {pod.uid: pod for pod in found}

    def read(self, pod: PodName) -> list[dict[str, Any]]:
        """One entry a container."""
        folder = self._logs / "_".join(pod)
        return [
            {
                "container": container,
                "runs": [
                    {"run": run, "lines": self._tail(folder / container / f"{run}.log")}
                    for run in self._last_runs(folder / container)
                ],
                "termination_messages": self._messages(pod, container),
            }
            for container in sorted(_names(folder))
        ]

    def _last_runs(self, folder: Path) -> list[int]:
        """Newest first. Rotated files (0.log.20250223-162418) are older than what is asked for."""
        runs = (_RUN.fullmatch(name) for name in _names(folder))
        return sorted((int(found[1]) for found in runs if found), reverse=True)[:_RUNS]

    def _tail(self, file: Path) -> list[str]:
        if self._lines == 0:
            return []
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                start = max(0, size - self._bytes)
                stream.seek(start)
                raw = stream.read(self._bytes)
        except OSError:
            return []
        text = raw.decode("utf-8", "replace")
        if start > 0:
            text = text.partition("\n")[2]  # the first line is cut
        written = join_parts(text.splitlines())
        return self._redact("\n".join(written)).split("\n")[-self._lines :] if written else []

    def _messages(self, pod: PodName, container: str) -> list[str]:
        """Each run has its own file, mounted as /dev/termination-log; newest first."""
        folder = self._kubelet / pod.uid / "containers" / container
        try:
            files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)[:_RUNS]
            texts = []
            for file in files:
                with file.open("rb") as stream:
                    texts.append(stream.read(_MESSAGE_BYTES).decode("utf-8", "replace").strip())
        except OSError:
            return []
        return [self._redact(text) for text in texts if text]


def join_parts(lines: list[str]) -> list[str]:
    """What the container wrote, without what the runtime put before it; long lines come in parts."""
    written: list[str] = []
    unfinished: dict[str, int] = {}  # by stream, for those of the other may come between the parts of one
    for line in lines:
        stream, text, ends = _written(line)
        place = unfinished.pop(stream, len(written))
        if place == len(written):
            written.append("")
        written[place] += text
        if not ends:
            unfinished[stream] = place
    return written


def _written(line: str) -> tuple[str, str, bool]:
    """(stream, text, whether the line ends here), of CRI's format, Docker's, or as it is."""
    if found := _CRI.fullmatch(line):
        return found["stream"], found["text"], found["part"] == "F"
    if line.startswith('{"log":'):
        try:
            entry = json.loads(line)
            text = str(entry["log"])
        except (ValueError, KeyError, TypeError):
            return "", line, True
        return str(entry.get("stream", "")), text.removesuffix("\n"), text.endswith("\n")
    return "", line, True


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
