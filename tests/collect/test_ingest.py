"""What a target's ingest remembers between scrapes, and what it forgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from recording_sink import STALE, RecordingSink

from trilens.collect.appender import Appender, ScrapeStats
from trilens.collect.config import load_scrape_configs
from trilens.collect.ingest import TargetIngest, join
from trilens.model.labels import make_labels

if TYPE_CHECKING:
    from pathlib import Path

REPORT = (1.0, 0.1, 1.0, 1.0, 1.0)


class Target:
    """Scraped by hand, without HTTP."""

    def __init__(self, base: Path) -> None:
        self.sink = RecordingSink()
        self._appender = Appender(self.sink, ScrapeStats())
        job = {"job_name": "j", "static_configs": [{"targets": ["a:1"]}]}
        config = load_scrape_configs({"scrape_configs": [job]}, base)[0]
        self.ingest = TargetIngest(config, make_labels({"job": "j"}), self.sink)
        self._now = 1_760_000_000_000

    def sleep_until_forgotten(self) -> None:
        self._now += 3_600_000
        self.sink.forget()

    def scrape(self, body: str | None) -> None:
        """None: the target did not answer."""
        self._now += 15_000
        if body is None:
            batches = [self._appender.stale(self.ingest.fail(), self._now)]
        else:
            found = self.ingest.read(body.encode(), openmetrics=False, t_ms=self._now)
            batches = [found.batch, self._appender.stale(found.stale, self._now)]
        batches.append(self.ingest.report(self._now, REPORT))
        assert self._appender.append(join(batches)) is None


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


def test_a_target_goes_on_after_its_series_were_forgotten(target: Target) -> None:
    target.scrape('a{pod="1"} 1\n')
    target.sleep_until_forgotten()
    target.scrape('a{pod="1"} 2\n')  # the same layout as before
    target.sleep_until_forgotten()
    target.scrape('a{pod="1"} 3\nb 1\n')  # another one
    assert target.sink.values("a") == [1, 2, 3], "the same series has no end in between"
    assert target.sink.values("up") == [1, 1, 1]


def test_what_was_forgotten_is_not_ended(target: Target) -> None:
    target.scrape("a 1\nb 1\n")
    target.sleep_until_forgotten()
    target.scrape("b 2\n")
    assert target.sink.values("a") == [1]
    target.scrape(None)
    assert target.sink.values("b") == [1, 2, STALE]
    target.sleep_until_forgotten()
    target.scrape("b 3\n")
    assert target.sink.values("b") == [1, 2, STALE, 3]


def test_a_series_that_vanished_is_not_remembered(target: Target) -> None:
    for pod in range(50):
        target.scrape(f'a{{pod="{pod}"}} 1\nsteady 1\n')
        assert len(target.ingest._parser._refs) == 2
    assert len(target.sink.of("steady")) == 50
