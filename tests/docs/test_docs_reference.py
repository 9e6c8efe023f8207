"""The reference pages that are made from the code leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.docs.hooks import PAGES
from tools.docs.metric_page import described
from tools.docs.rule_pages import shipped
from typer.main import get_command

from memory_api import Api
from recording_rules import shipped_rules
from trilens.cli.main import app
from trilens.detect.detectors import all_detectors
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


def test_every_rule_and_every_alert(page: dict[str, str]) -> None:
    files = sorted({one.file for one in shipped() if not one.file.startswith("alerts")})
    records = {rule.record for rule in shipped_rules(*files)}
    alerts = [one.name for one in shipped() if one.is_alert]
    assert (len(records) > 50, len(alerts) > 50) == (True, True)
    assert [name for name in records if f"### {name}\n" not in page["rules"]] == []
    assert [name for name in alerts if f"## {name}\n" not in page["alerts"]] == []


def test_every_detector_with_what_to_do(page: dict[str, str]) -> None:
    for one in all_detectors():
        section = page["detectors"].partition(f"## {one.code} ")[2].partition("\n## ")[0]
        for lead in ("What it finds", "Why it costs", "Example", "What to do"):
            assert f"**{lead}.**" in section, (one.code, lead)


def test_every_xid(page: dict[str, str]) -> None:
    rows = re.findall(r"^\| \[?(\d+)[^|]* \| ([^|]+) \|", page["xids"], re.MULTILINE)
    assert len(rows) == len(XIDS)
    assert {int(code): title for code, title in rows} == {code: one.title for code, one in XIDS.items()}


def test_every_typed_route(page: dict[str, str]) -> None:
    routes = [route.path for route in Api().build().routes if route.path.startswith("/api/")]
    typed = [re.sub(r":path\}", "}", path) for path in routes if not UNTYPED.fullmatch(path)]
    assert len(typed) > 30
    assert [path for path in typed if f"`{path}`" not in page["routes"]] == []
