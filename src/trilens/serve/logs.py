"""One line per event: text for people, JSON for machines. Fields come through `extra`."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from trilens.settings.service import ServiceSettings

_LEVELS: Final = ("warning", "error", "critical")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure_logs(service: ServiceSettings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if service.log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler, _LINES]
    root.setLevel(service.log_level.upper())
    # They tell at length of things that are said here already, or of every request that is sent.
    for talkative in ("uvicorn", "httpx"):
        logging.getLogger(talkative).setLevel(max(root.level, logging.WARNING))
    for warning_too in ("urllib3.connectionpool", "clickhouse_connect"):  # of what they raise as well
        logging.getLogger(warning_too).setLevel(max(root.level, logging.ERROR))


class _Lines(logging.Handler):
    """How many there were, by level: an error that nobody reads is seen all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.levelname.lower()] += 1


_LINES: Final = _Lines()  # of the process, as the log is


def log_metrics() -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily  # an agent has a log, and not this library

    family = CounterMetricFamily(
        "trilens_log_lines", "Lines in the log of this process, by level.", labels=["level"]
    )
    for level in _LEVELS:
        family.add_metric([level], _LINES.counts[level])
    yield family


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {key}={_quoted(value)}" for key, value in _fields(record).items())
        line = f"{_stamp(record)} {record.levelname:<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = json.dumps(line, default=str, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(line, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"


def _quoted(value: object) -> str:
    """What somebody else may have written can neither begin a line nor speak to a terminal."""
    text = str(value)
    if not text.isprintable():
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "=') else text
