"""What a team tells to be mended is its own, and stays so when its name has passed to another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import running
from trilens.model.fix import Deed, Fix, FixState, FixTarget
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Membership, Workload
from trilens.serve.app import build_app
from trilens.serve.cure.cure_api import CureApi
from two_teams import HOUR, NODE, NOW_MS, OWN, pod_of, two_teams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.workload import WorkloadKey
    from trilens.serve.cure.told import Told

GONE = OWN._replace(name="passed-on", uid="u-gone")
HEIR = GONE._replace(uid="u-heir")  # another team's, with its name and those of its pods
UNREAD = OWN._replace(name="unread", uid="")  # of which only the name was ever known
CRASHED = OWN._replace(name="crashed", uid="u-crashed")
ENDED = HOUR + 60_000


class Noted:
    """A Cure that does nothing, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    async def do(self, told: Told) -> Fix:
        self.told.append(told)
        return Fix("noted", NOW_MS, told.deed, told.target, told.by, told.why, told.source, FixState.DONE)


@pytest.fixture
def cure(tmp_path: Path) -> Iterator[tuple[Any, list[Told]]]:
    with two_teams(tmp_path) as fleet:
        records = fleet.store.workloads
        for key, team, began_ms, ended_ms in (
            (GONE, "nlp", HOUR, ENDED),
            (HEIR, "canary-vision", ENDED, None),
            (UNREAD, "nlp", HOUR, ENDED),
            (CRASHED, "nlp", HOUR, None),
        ):
            records.workload(Workload(key, began_ms, 0, team))
            phase = Phase.FAILED if key is CRASHED else Phase.RUNNING
            records.phase(PhaseInterval(key, 0, phase, "", began_ms, ended_ms))
            gone_ms = ENDED if key is CRASHED else ended_ms
            records.membership(MembershipInterval(Membership(pod_of(key), key), NODE, began_ms, gone_ms))
        assert fleet.store.records_settled(30)
        api, noted, parts = fleet.api, Noted(), fleet.parts()
        cure: Any = CureApi(noted, api.fixes, api.cases, records, api.questions)  # type: ignore[arg-type]
        app = build_app(replace(parts, fleet=replace(parts.fleet, cure=cure)))
        with running(app) as url, httpx.Client(base_url=url, timeout=60) as client:

            def told(subject: str, deed: Deed, role: str = "nlp fixer") -> httpx.Response:
                asked = {"subject": subject, "deed": deed.value, "do": "true"}
                return client.post("/api/fixes", data=asked, headers={"role": role})

            yield told, noted.told


def _target(key: WorkloadKey) -> FixTarget:
    return FixTarget(key.cluster, key.group, key.kind, key.namespace, key.name, key.uid)


def test_the_very_object_that_was_found_is_meant(cure: tuple[Any, list[Told]]) -> None:
    """Whoever mends it compares the uid, so what is another's by now is left alone."""
    told, noted = cure
    for subject, deed in ((OWN.name, Deed.RESTART), (GONE.name, Deed.RESTART), (CRASHED.name, Deed.RESTART)):
        assert told(f"lab/shared/Job/{subject}", deed).status_code == 200
    assert [one.target for one in noted] == [_target(OWN), _target(GONE), _target(CRASHED)]
    noted.clear()
    for key in (OWN, GONE):
        assert told(f"lab/shared/pod/{key.name}-0", Deed.DELETE_POD).status_code == 200
    pods = [pod_of(key) for key in (OWN, GONE)]
    assert [one.target for one in noted] == [FixTarget("lab", "", "Pod", *pod[1:]) for pod in pods]
    assert told("lab/shared/Job/passed-on", Deed.RESTART, "admin").status_code == 200
    assert noted[-1].target == _target(HEIR)


@pytest.mark.parametrize("role", ["nlp fixer", "admin"])
def test_what_is_gone_and_known_by_name_alone_is_left_alone(cure: tuple[Any, list[Told]], role: str) -> None:
    told, noted = cure
    answer = told("lab/shared/Job/unread", Deed.RESTART, role)
    assert (answer.status_code, "is gone" in answer.text) == (404, True), answer.text
    assert noted == []
