"""Prometheus text 0.0.4 and OpenMetrics 1.0, from bytes to arrays.

`grammar` reads one line with care, `metadata` the lines that start with `#`, `parser` a whole scrape at
speed, `backfill` samples of the past in pieces, and `conformance` holds the rules of OpenMetrics that a
scrape does not enforce.
"""

from trilens.collect.exposition.backfill import BackfillPiece, parse_backfill
from trilens.collect.exposition.conformance import check_openmetrics
from trilens.collect.exposition.lines import NO_TIMESTAMP
from trilens.collect.exposition.metadata import FamilyMetadata
from trilens.collect.exposition.parser import (
    DROPPED,
    ExpositionParser,
    ParsedScrape,
    Sample,
    parse_samples,
)

__all__ = [
    "DROPPED",
    "NO_TIMESTAMP",
    "BackfillPiece",
    "ExpositionParser",
    "FamilyMetadata",
    "ParsedScrape",
    "Sample",
    "check_openmetrics",
    "parse_backfill",
    "parse_samples",
]
