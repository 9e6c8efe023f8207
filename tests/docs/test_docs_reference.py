"""The reference pages that are made from the code leave nothing out."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import httpx
import pytest
from tools.docs.hooks import PAGES
from tools.docs.metric_page import described
from tools.docs.rule_pages import shipped
from tools.docs.xid_page import known_sxids
from typer.main import get_command

import trilens.detect
from memory_api import Api, running
from recording_rules import shipped_rules
from trilens.cli.main import app
from trilens.detect.detectors import all_detectors
from trilens.diagnose.xid.sxid import sxid
from trilens.model.xid import XIDS
from trilens.resolve.kube_state.families import FAMILIES
from trilens.rules.thresholds import thresholds

DOCS = Path(__file__).parents[2] / "docs"
# Answered without the envelope, or not to people: docs/api.md has them, as a test of its own says.
UNTYPED = re.compile(r"/api/(v1/.*|openapi\.json|runs/\{run\}/traces)")


@pytest.fixture(scope="module")
def page() -> dict[str, str]:
    return {path.removeprefix("reference/").removesuffix(".md"): make() for path, make in PAGES.items()}


def test_every_command_and_every_option(page: dict[str, str]) -> None:
    sections = dict(re.findall(r"^## (trilens.*)\n([\s\S]*?)(?=^## |\Z)", page["commands"], re.MULTILINE))
    missing = []

    def look(name: str, command: object) -> None:
        options = [one for param in command.params for one in param.opts if one.startswith("-")]  # type: ignore[attr-defined]
        hidden = {one for param in command.params if getattr(param, "hidden", False) for one in param.opts}  # type: ignore[attr-defined]
        missing.extend(
            f"{name} {one}" for one in options if one not in hidden and one not in sections.get(name, "")
        )
        for part, inner in getattr(command, "commands", {}).items():
            look(f"{name} {part}", inner)

    look("trilens", get_command(app))
    assert len(sections) > 50
    assert missing == []


def test_every_metric(page: dict[str, str]) -> None:
    """Other pages explain them, and are tested to: what one of these names is on this page."""
    named = re.compile(r"`((?:trilens|training|inference)_\w+)`")
    told = {name for file in DOCS.glob("*.md") for name in named.findall(file.read_text(encoding="utf-8"))}
    of_any_value = {"training_x", "training_validation_x", "training_validation_loss"}
    known = {one.metric for one in described()}
    assert told - set(thresholds()) - of_any_value - known == set()
    assert len(known) > 200
    every = [*known, *(family.metric for family in FAMILIES)]
    assert [name for name in every if f"| `{name}` |" not in page["metrics"]] == []


def test_no_metric_is_exposed_that_the_page_does_not_find(page: dict[str, str]) -> None:
    """It reads the source: a name without a sentence beside it would be left out unseen."""
    source = Path(trilens.__file__).parent
    named = re.compile(r"(?:trilens|training|inference)_\w*[a-z0-9]")
    known = {one.metric for one in described()}
    no_metrics = {"trilens_position", "trilens_request"}  # of a data loader's state, of a request's scope
    missing = {
        node.value
        for folder in ("serve", "resolve", "collect", "sdk")
        for file in (source / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and named.fullmatch(node.value)
    }
    missing -= known | no_metrics
    assert [name for name in missing if f"{name}_total" not in known] == []
    with running(Api().build()) as url:
        exposed = re.findall(r"^# TYPE (\S+)", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    assert len(exposed) > 5
    assert [one for one in exposed if f"`{one}`" not in page["metrics"] and "process_" not in one] == []


def test_every_variable_of_the_environment_is_told() -> None:
    told = "".join(file.read_text("utf-8") for file in DOCS.rglob("*.md"))
    source = Path(trilens.__file__).parent
    named = re.compile(r'"(TRILENS_[A-Z_]*[A-Z])"')
    asked = {name for file in source.rglob("*.py") for name in named.findall(file.read_text("utf-8"))}
    # One that `trilens run` sets for its program, and what pods may have for other programs.
    asked -= {"TRILENS_ATTACH_PID", "TRILENS_RUN", "TRILENS_TEAM"}
    assert len(asked) > 10
    assert [name for name in sorted(asked) if name not in told] == []


def test_every_rule_and_every_alert(page: dict[str, str]) -> None:
    files = sorted({one.file for one in shipped() if not one.file.startswith("alerts")})
    records = {rule.record for rule in shipped_rules(*files)}
    alerts = [one.name for one in shipped() if one.is_alert]
    assert (len(records) > 50, len(alerts) > 50) == (True, True)
    assert [name for name in records if f"### {name}\n" not in page["rules"]] == []
    assert [name for name in alerts if f"## {name}\n" not in page["alerts"]] == []


def test_every_detector_with_what_to_do(page: dict[str, str]) -> None:
    every = [
        importlib.import_module(one.name)
        for one in pkgutil.iter_modules(trilens.detect.__path__, "trilens.detect.")
    ]
    codes = [found[1] for one in every if (found := re.match(r"(D\d{3}) ", one.__doc__ or ""))]
    assert sorted(codes) == [one.code for one in all_detectors()]
    for one in all_detectors():
        section = page["detectors"].partition(f"## {one.code} ")[2].partition("\n## ")[0]
        for lead in ("What it finds", "Why it costs", "Example", "What to do"):
            assert f"**{lead}.**" in section, (one.code, lead)


def test_every_xid(page: dict[str, str]) -> None:
    of_gpus, _, of_switches = page["xids"].partition("\n## SXids\n")
    rows = re.findall(r"^\| \[?(\d+)[^|]* \| ([^|]+) \|", of_gpus, re.MULTILINE)
    assert len(rows) == len(XIDS)
    assert {int(code): title for code, title in rows} == {code: one.title for code, one in XIDS.items()}
    switches = [int(code) for code in re.findall(r"^\| (\d+) \|", of_switches, re.MULTILINE)]
    assert switches == [one.code for one in known_sxids()]
    told = sxid(10003)
    assert told is not None
    assert f"| 10003 | {told.unit}: {told.about} | {told.title} | `node-out` | {told.now} |" in of_switches


def test_every_typed_route(page: dict[str, str]) -> None:
    routes = [route.path for route in Api().build().routes if route.path.startswith("/api/")]
    typed = [re.sub(r":path\}", "}", path) for path in routes if not UNTYPED.fullmatch(path)]
    assert len(typed) > 30
    assert [path for path in typed if f"`{path}`" not in page["routes"]] == []
