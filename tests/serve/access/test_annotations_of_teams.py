"""Annotations may say whose a workload is: who is bound to teams neither sets them nor takes them back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import running
from trilens.diagnose.cure.proposals import REMEDIES
from trilens.model.fix import Deed, Fix, FixState, FixTarget
from trilens.serve.app import build_app
from trilens.serve.cure.cure_api import CureApi
from two_teams import HOUR, NOW_MS, OWN, two_teams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.serve.cure.told import Told

JOB = FixTarget(OWN.cluster, OWN.group, OWN.kind, OWN.namespace, OWN.name, OWN.uid)
DONE = Fix("annotated", HOUR, Deed.ANNOTATE, JOB, "somebody", "", "", FixState.DONE, before={"team": "x"})
ANNOTATE = {"subject": f"lab/shared/Job/{OWN.name}", "deed": "annotate", "set": "team=canary-vision"}


class Noted:
    """A Cure that does nothing, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def dry_run(self, told: Told) -> Fix:
        return self._note(f"try {told.deed}")

    async def do(self, told: Told) -> Fix:
        return self._note(f"do {told.deed}")

    async def approve(self, id: str, by: str) -> Fix:
        return self._note(f"approve {id}")

    async def undo(self, id: str, by: str) -> Fix:
        return self._note(f"undo {id}")

    def _note(self, what: str) -> Fix:
        self.told.append(what)
        return replace(DONE, id="noted", t_ms=NOW_MS)


@pytest.fixture
def cure(tmp_path: Path) -> Iterator[tuple[httpx.Client, list[str]]]:
    with two_teams(tmp_path) as fleet:
        fleet.store.fixes.put(DONE)
        assert fleet.store.records_settled(30)
        api, noted, parts = fleet.api, Noted(), fleet.parts()
        records: Any = fleet.store.workloads
        told = CureApi(noted, fleet.store.fixes, api.cases, records, api.questions)
        app = build_app(replace(parts, fleet=replace(parts.fleet, cure=told)))
        with running(app) as url, httpx.Client(base_url=url, timeout=60) as client:
            yield client, noted.told


@pytest.mark.parametrize(
    ("path", "asked", "noted"),
    [
        ("/api/fixes", ANNOTATE, "try annotate"),
        ("/api/fixes", {**ANNOTATE, "do": "true"}, "do annotate"),
        ("/api/fixes/annotated/undo", {}, "undo annotated"),
        ("/api/fixes/annotated/approve", {}, "approve annotated"),
    ],
)
def test_who_is_bound_to_teams_changes_none(
    cure: tuple[httpx.Client, list[str]], path: str, asked: dict[str, str], noted: str
) -> None:
    client, told = cure
    refused = client.post(path, data=asked, headers={"role": "nlp fixer"})
    assert (refused.status_code, told) == (403, []), refused.text
    assert "may say whose a workload is" in refused.json()["error"]
    for role in ("lab fixer", "admin"):
        assert client.post(path, data=asked, headers={"role": role}).status_code == 200, role
    assert told == [noted] * 2


def test_nor_is_it_offered(cure: tuple[httpx.Client, list[str]]) -> None:
    client, _ = cure
    for role, undo in (("nlp fixer", ""), ("lab fixer", "annotate"), ("admin", "annotate")):
        found = client.get("/api/fixes", headers={"role": role}).json()["data"]
        assert [one["undo"] for one in found if one["id"] == DONE.id] == [undo], role
    assert Deed.ANNOTATE not in {one["do"] for remedies in REMEDIES.values() for one in remedies}
