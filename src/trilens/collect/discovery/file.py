"""Targets from JSON and YAML files, read again when they change."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final

import yaml

from trilens.collect.discovery.base import Publish, TargetLabels, parse_target_groups
from trilens.model.errors import DiscoveryError

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.collect.config import FileSdConfig

log = logging.getLogger(__name__)

# Looking at a file's time costs microseconds, so a change is seen soon without a watching library.
_LOOK_EVERY_S: Final = 1.0

_Stamp = tuple[int, int, int]


class FileDiscovery:
    def __init__(self, section: FileSdConfig, *, look_every_s: float = _LOOK_EVERY_S) -> None:
        self._patterns = section.files
        self._look_every_s = min(look_every_s, section.refresh_interval.total_seconds())
        self._stamps: dict[Path, _Stamp] = {}

    async def run(self, publish: Publish) -> None:
        while True:
            self.look(publish)
            await asyncio.sleep(self._look_every_s)

    def look(self, publish: Publish) -> None:
        """Publish the files that are new, changed or gone since the last look."""
        files = {file for pattern in self._patterns for file in pattern.parent.glob(pattern.name)}
        for file in sorted(files):
            try:
                stamp = _stamp(file)
                if self._stamps.get(file) == stamp:
                    continue
                self._stamps[file] = stamp
                publish(str(file), read_targets(file))
            except (OSError, DiscoveryError) as e:
                log.warning("target file not usable, keeping what it said before", extra={"reason": str(e)})
        for file in self._stamps.keys() - files:
            del self._stamps[file]
            publish(str(file), [])


def _stamp(file: Path) -> _Stamp:
    status = file.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_targets(file: Path) -> list[TargetLabels]:
    try:
        text = file.read_text(encoding="utf-8")
        document = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
        return parse_target_groups([] if document is None else document, {"__meta_filepath": str(file)})
    except (ValueError, yaml.YAMLError) as e:
        raise DiscoveryError(f"{file}: {' '.join(str(e).split())}") from e
    except DiscoveryError as e:
        raise DiscoveryError(f"{file}: {e.message}") from e
