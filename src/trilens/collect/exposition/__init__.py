"""Prometheus text 0.0.4 and OpenMetrics 1.0, from bytes to arrays.

`grammar` reads one line with care, `metadata` the lines that start with `#`, `parser` a whole scrape at
speed, `history` samples of the past in pieces, and `conformance` holds the rules of OpenMetrics that a scrape
does not enforce.
"""

from trilens.collect.exposition.conformance import check_openmetrics
from trilens.collect.exposition.history import HistoryPiece, parse_history
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
    "ExpositionParser",
    "FamilyMetadata",
    "HistoryPiece",
    "ParsedScrape",
    "Sample",
    "check_openmetrics",
    "parse_history",
    "parse_samples",
]
