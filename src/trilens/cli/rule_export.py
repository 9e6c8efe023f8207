"""The shipped rule files for other servers: as they are, as objects of an operator, for vmalert."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.errors import ConfigError
from trilens.rules import files_for_others, rule_files
from trilens.rules.thresholds import threshold_problem, with_thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # of a namespace, too
_LABEL: Final = re.compile(
    r"(?P<name>(?:[a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]{0,62})=(?P<value>[A-Za-z0-9][-A-Za-z0-9_.]{0,62}|)"
)
_OWN_LABELS: Final = {"app.kubernetes.io/name": "trilens", "app.kubernetes.io/component": "rules"}
# vmalert takes rule files of Prometheus as they are; what differs is when a rule sees what another records.
_VMALERT: Final = """\
# For vmalert: -rule='FOLDER/*.yml', -datasource.url, and -remoteWrite.url to the same storage, as rules build
# on what others record.
# vmalert writes a record while it evaluates the next rule, which sees it one pass later than in Prometheus.
"""


class Format(StrEnum):
    PROMETHEUS = "prometheus"
    PROMETHEUS_RULE = "prometheusrule"
    VMALERT = "vmalert"


class Placed(NamedTuple):
    """Where objects of Kubernetes go."""

    namespace: str | None = None
    labels: tuple[tuple[str, str], ...] = ()


def read_thresholds(written: Sequence[str]) -> dict[str, float]:
    """`NAME=VALUE` each. Raises ConfigError."""
    values: dict[str, float] = {}
    for one in written:
        name, sign, value = one.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError as e:
            raise ConfigError(
                f"{one!r} sets no threshold" if not sign else f"{value!r} is not a number",
                hint="write it like --set gpu_temperature_celsius=85",
            ) from e
    if (problem := threshold_problem(values)) is not None:
        raise ConfigError(problem, hint="docs/alerts.md lists them all")
    return values


def read_place(namespace: str | None, labels: Sequence[str]) -> Placed:
    """Raises ConfigError for what Kubernetes would refuse."""
    if namespace is not None and not _OBJECT_NAME.fullmatch(namespace):
        raise ConfigError(f"{namespace!r} is not the name of a namespace")
    found = []
    for one in labels:
        if (match := _LABEL.fullmatch(one)) is None:
            raise ConfigError(f"{one!r} is not a label", hint="write it like --label release=prometheus")
        found.append((match["name"], match["value"]))
    return Placed(namespace, tuple(found))


def exported(wanted: Format, values: Mapping[str, float], placed: Placed) -> Iterator[tuple[str, str]]:
    """The name and the text of each file."""
    for entry in (*rule_files(), *files_for_others()):
        text = with_thresholds(entry.read_text(encoding="utf-8"), values)
        match wanted:
            case Format.PROMETHEUS:
                yield entry.name, text
            case Format.PROMETHEUS_RULE:
                yield f"trilens-{entry.name}", _prometheus_rule(Path(entry.name).stem, text, placed)
            case Format.VMALERT:
                yield entry.name, _VMALERT + text


def _prometheus_rule(stem: str, text: str, placed: Placed) -> str:
    """The file's own text, comments and all, under `spec`."""
    labels = {**_OWN_LABELS, **dict(placed.labels)}
    lines = [
        "apiVersion: monitoring.coreos.com/v1",
        "kind: PrometheusRule",
        "metadata:",
        f"  name: trilens-{stem}",
        *([f"  namespace: {placed.namespace}"] if placed.namespace is not None else []),
        "  labels:",
        *(f'    {name}: "{value}"' for name, value in labels.items()),
        "spec:",
        *(f"  {line}" if line else "" for line in text.splitlines()),
    ]
    return "\n".join(lines) + "\n"
