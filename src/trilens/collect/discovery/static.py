"""Targets written into the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.discovery.base import Publish, merge_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.config import StaticConfig


class StaticDiscovery:
    def __init__(self, sections: Sequence[StaticConfig]) -> None:
        self._sections = sections

    async def run(self, publish: Publish) -> None:
        for i, section in enumerate(self._sections):
            publish(str(i), [merge_labels(target, section.labels, {}) for target in section.targets])
