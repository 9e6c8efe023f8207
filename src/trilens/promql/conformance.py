"""Runs Prometheus's evaluation scripts against this engine and reports what agrees.

Each instant evaluation is also asked as a range query around its time, as Prometheus's own runner does.
An evaluation that needs something not supported is excluded, if exclusions.toml lists it; any other
difference is a failure.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trilens.model.errors import PromQLScriptError, PromQLUnsupported
from trilens.promql.engine import Engine
from trilens.promql.memory import NATIVE_HISTOGRAMS, START_TIMESTAMPS, MemorySource
from trilens.promql.script import HISTOGRAM, Clear, Eval, Load, read
from trilens.promql.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.promql.script import Command


@dataclass(frozen=True, slots=True)
class Outcome:
    """An evaluation that did not pass: a failure with what came and what should have, or an exclusion."""

    file: str
    line: int
    query: str
    reason: str
    got: str = ""
    want: str = ""


@dataclass(slots=True)
class Report:
    passed: int = 0
    failures: list[Outcome] = field(default_factory=list)
    exclusions: list[Outcome] = field(default_factory=list)
    needless: list[Outcome] = field(default_factory=list)  # listed as excluded, but passes

    @property
    def failed(self) -> int:
        return len(self.failures)

    @property
    def excluded(self) -> int:
        return len(self.exclusions)

    def counted_exclusions(self) -> dict[str, dict[str, int]]:
        """How many evaluations of each file each reason excludes."""
        counts: dict[str, Counter[str]] = {}
        for outcome in self.exclusions:
            counts.setdefault(outcome.reason, Counter())[Path(outcome.file).name] += 1
        return {reason: dict(files) for reason, files in counts.items()}

    def as_dict(self) -> dict[str, Any]:
        place = ("file", "line", "query", "reason")
        return {
            "passed": self.passed,
            "failed": self.failed,
            "excluded": self.excluded,
            "failures": [asdict(x) for x in self.failures],
            "exclusions": [{name: getattr(x, name) for name in place} for x in self.exclusions],
        }


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that is not supported, known by the error it gives."""

    name: str
    error: str
    reason: str
    evals: dict[str, int]


@dataclass(frozen=True, slots=True)
class Exclusions:
    features: tuple[Feature, ...]
    evals: dict[tuple[str, str], str]  # (file, query) -> reason

    @classmethod
    def shipped(cls) -> Exclusions:
        text = resources.files("trilens.promql").joinpath("exclusions.toml").read_text(encoding="utf-8")
        listed = tomllib.loads(text)
        features = tuple(Feature(**f) for f in listed.get("feature", []))
        evals = {(e["file"], e["query"]): e["reason"] for e in listed.get("eval", [])}
        return cls(features, evals)

    def feature(self, error: PromQLUnsupported) -> Feature | None:
        return next((f for f in self.features if f.error in error.message), None)


def run_files(paths: Iterable[Path | str], exclusions: Exclusions | None = None) -> Report:
    """Run scripts in order; each starts with nothing loaded. All are read before the first one runs."""
    listed = Exclusions.shipped() if exclusions is None else exclusions
    report = Report()
    for commands in [_commands(Path(path)) for path in paths]:
        _Run(report, listed).run(commands)
    return report


def _commands(path: Path) -> list[Command]:
    commands = list(read(path))
    if not any(isinstance(command, Eval) for command in commands):
        raise PromQLScriptError(f"{path} evaluates nothing", hint="a script has at least one line with eval")
    return commands


class _Run:
    """One script: its samples, and an engine over them."""

    def __init__(self, report: Report, exclusions: Exclusions) -> None:
        self._report = report
        self._exclusions = exclusions
        self._source = MemorySource()

    def run(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Clear():
                    self._source = MemorySource()
                case Load():
                    _load(self._source, command)
                case Eval():
                    self._judge(command)

    def _judge(self, command: Eval) -> None:
        place = (command.file, command.line, command.query)
        listed = self._exclusions.evals.get((Path(command.file).name, command.query))
        try:
            difference = judge(Engine(self._source), command)
        except PromQLUnsupported as e:
            feature = self._exclusions.feature(e)
            if feature is not None:
                self._report.exclusions.append(Outcome(*place, feature.name))
            else:
                self._report.failures.append(Outcome(*place, "not supported", str(e)))
            return
        if difference is None:
            self._report.passed += 1
            if listed is not None:
                self._report.needless.append(Outcome(*place, listed))
        elif listed is not None:
            self._report.exclusions.append(Outcome(*place, listed))
        else:
            self._report.failures.append(Outcome(*place, difference.reason, difference.got, difference.want))


def _load(source: MemorySource, command: Load) -> None:
    for series in command.series:
        at = [(i * command.interval_ms, point) for i, point in enumerate(series.points)]
        if series.start_timestamps:
            source.mark_unsupported(series.labels, [t for t, x in at if x is not None], START_TIMESTAMPS)
            continue
        source.add(series.labels, [(t, x) for t, x in at if isinstance(x, float)])
        native = [t for t, x in at if x == HISTOGRAM]
        source.mark_unsupported(series.labels, native, NATIVE_HISTOGRAMS)
        name = series.labels.get("__name__", "")
        if command.also_native and name.endswith("_bucket") and "le" in series.labels:
            made = {n: v for n, v in series.labels.items() if n != "le"}
            made["__name__"] = name.removesuffix("_bucket")
            source.mark_unsupported(made, [t for t, x in at if x is not None], NATIVE_HISTOGRAMS)
