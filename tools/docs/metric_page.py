"""Every metric that Trilens exposes, found where the code describes it.

A metric is described in one place, as a name beside a sentence: arguments of a call, an entry of a dict, a
tuple. So the source is read, and nothing has to run for it; the few whose names are put together are asked.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trilens
from tools.docs.text import code, page, table
from trilens.resolve.kube_state.families import FAMILIES
from trilens.serve.delivery_metrics import delivery_metrics
from trilens.serve.rules import rule_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

_ABOUT = """\
What Trilens exposes on its own endpoints; beside it the server has the `process_` metrics of every Prometheus
client. What is recorded of it, and of what others expose, is in [Recording rules](rules.md)."""
# Where each is told, by the folder whose code describes it.
_ENDPOINTS: Final = {
    "serve": "The server: `/metrics` of itself, `/metrics/workloads` of workloads, GPUs, money and findings",
    "resolve": "The server: `/metrics/workloads`",
    "collect/node": "The agent: `/metrics` of `trilens agent`",
    "sdk": "A training or serving program: its own `/metrics`",
}
# What a program logs under names of its own.
_OF_ANY_NAME: Final = (
    ("training_NAME", "What the program logged as NAME."),
    ("training_logged_NAME", "The same, where NAME is that of another metric of this table."),
    ("training_validation_NAME", "The same of a validation."),
)
_NAME: Final = re.compile(r"(trilens|training|inference|DCGM_FI)_\w+")
_LIKELY: Final = re.compile(
    r"\"(trilens|training|inference|DCGM_FI)_|Family\(|# HELP "
)  # the rest need no parsing
_HELP_LINE: Final = re.compile(r"# HELP (\w+) (.+)")
_SOURCE: Final = Path(trilens.__file__).parent


class Described(NamedTuple):
    metric: str
    help: str
    folder: str


def metrics_page() -> str:
    every = sorted({one.metric: one for one in described()}.values())
    sections = []
    for folder, where in _ENDPOINTS.items():
        rows = [(code(one.metric), one.help) for one in every if one.folder == folder]
        rows += [(code(metric), text) for metric, text in _OF_ANY_NAME if folder == "sdk"]
        sections.append(f"## {where}\n\n{table(('metric', 'what'), rows)}")
    rows = [(code(one.metric), one.help) for one in FAMILIES]
    sections.append(
        "## The server: `/metrics/kubernetes`\n\nAs kube-state-metrics has them, where it is absent "
        f"([Platform metrics](../platform-metrics.md)).\n\n{table(('metric', 'what'), rows)}"
    )
    return page("Metrics", _ABOUT, *sections)


@cache
def described() -> list[Described]:
    written = [
        Described(metric, text, folder)
        for folder in _ENDPOINTS
        for file in sorted((_SOURCE / folder).rglob("*.py"))
        for metric, text in _in_module(file.read_text(encoding="utf-8"))
    ]
    asked = [*rule_metrics([]), *delivery_metrics(_nobody_is_told(), 0)]
    return written + [Described(_shown_name(one), one.documentation, "serve") for one in asked]


def _shown_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _nobody_is_told() -> Any:
    return SimpleNamespace(reports=list, silences=SimpleNamespace(active=lambda _now_ms: []))


def _in_module(source: str) -> Iterator[tuple[str, str]]:
    if not _LIKELY.search(source):
        return
    tree = ast.parse(source)
    constants = {**_imported(tree), **dict(_constants(tree))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for metric, text in _beside([*node.args, *(one.value for one in node.keywords)], constants):
                yield _with_suffix(metric, ast.unparse(node.func)), text
        elif isinstance(node, ast.Tuple):
            yield from _beside(node.elts, constants)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                inside = value.args if isinstance(value, ast.Call) else [value]
                if key is not None:
                    yield from _beside([key, *inside], constants)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _HELP_LINE.findall(node.value)


def _beside(nodes: Iterable[ast.expr], constants: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The name comes first, and then the sentence."""
    texts = [text for node in nodes if (text := _text(node, constants)) is not None]
    if texts and _NAME.fullmatch(texts[0]):
        sentence = next((text for text in texts[1:] if " " in text or text.endswith(".")), None)
        if sentence is not None:
            yield texts[0], sentence


def _text(node: ast.expr, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Of the module and of its functions: a long sentence has a name of its own there."""
    for node in ast.walk(tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield target.id, value.value


def _imported(tree: ast.Module) -> dict[str, str]:
    """A name may be given in one module and described in another."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trilens."):
            names = [one.name for one in node.names if one.name.isupper()]
            there = _constants_of(str(node.module)) if names else {}
            found.update((name, there[name]) for name in names if name in there)
    return found


@cache
def _constants_of(module: str) -> dict[str, str]:
    file = _SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return dict(_constants(ast.parse(file.read_text(encoding="utf-8")))) if file.exists() else {}


def _with_suffix(metric: str, made: str) -> str:
    """Counters are called so when they are shown."""
    return f"{metric}_total" if "ount" in made and not metric.endswith("_total") else metric
