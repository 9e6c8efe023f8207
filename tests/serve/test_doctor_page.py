"""/api/doctor: what `trilens doctor` finds from outside, found from within, by area and with what to copy."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import msgspec
import pytest
from starlette.responses import Response
from starlette.routing import Route

from command_here import trilens_here
from memory_api import Api, running
from trilens.cli.checkup import layers, machine
from trilens.cli.checkup.machine import Machine
from trilens.model.errors import ServerError, ServerSilent, StoreDamaged, StoreError
from trilens.serve.access.access import Access
from trilens.serve.access.doors import ServerToken
from trilens.serve.app import build_app
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.checkup.asked_once import AskedOnce
from trilens.serve.checkup.layers import OF_A_SERVER
from trilens.serve.checkup.unconnected import UNCONNECTED
from trilens.serve.detection.keeper import DetectionState
from trilens.serve.pages import doctor, doctor_inside
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.doctor_advice import ADVICE, AREAS
from trilens.serve.pages.doctor_answers import DoctorAnswer

if TYPE_CHECKING:
    from pathlib import Path

WELL: dict[str, Any] = {"synced": True, "trouble": None, "not_followed": [], "to_grant": []}
GRANT = {"namespace": "", "rule": {"verbs": ["list", "watch"], "resources": ["pods"], "apiGroups": [""]}}


def well(**parts: Any) -> Api:
    return Api(**{"detection": DetectionState(looked_ms=1), **parts})


def told(url: str, **params: str) -> dict[str, Any]:
    answer = httpx.get(f"{url}/api/doctor", params=params, timeout=60)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    msgspec.convert(data, DoctorAnswer)
    return data


def findings(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["check"]: one for area in data["areas"] for one in area["found"]}


def test_what_the_command_finds_over_http_is_found_from_within(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = Machine(tmp_path, tmp_path / "spool", tmp_path, "http://127.0.0.1:1")
    monkeypatch.setattr(layers, "Machine", lambda: bare)
    monkeypatch.setattr(machine, "_LITTLE_BYTES", 0)
    unwell = {
        "store": {"read_only_reason": "disk full", "damage": ["part 7 is damaged"]},
        "kubernetes": {"clusters": {"lab": {**WELL, "to_grant": [GRANT]}}},
    }
    with running(well(readiness=unwell, ready=False).build()) as url:
        by_command = json.loads(trilens_here("doctor", "--json", "--server", url).stdout)
        within = [one for area in told(url)["areas"] for one in area["found"] if one["kind"] != "unconnected"]
    assert {(one["layer"], one["what"]) for one in within} == {
        (one["layer"], one["what"]) for one in by_command
    }
    assert {one["kind"] for one in within} == {"problem"}


def test_areas_have_the_state_of_their_worst_and_say_what_to_copy() -> None:
    unwell = {"kubernetes": {"clusters": {"lab": {**WELL, "to_grant": [GRANT]}}}}
    with running(well(readiness=unwell).build()) as url:
        data = told(url)
    states = {area["area"]: area["state"] for area in data["areas"]}
    assert states == {
        "gpu": "unconnected",
        "kubernetes": "problem",
        "programs": "unconnected",
        "money": "unconnected",
        "alerts": "unconnected",
        "server": "ok",
    }
    found = findings(data)
    assert found["permissions"]["copy"] == "trilens kubernetes rbac | kubectl apply -f -"
    assert found["no_budgets"]["where"] == "trilens.yaml"
    assert "no_cluster" not in found  # one is watched, if badly
    assert data["elsewhere"][0]["command"] == "trilens doctor"


def test_the_lines_of_a_file_are_what_is_copied() -> None:
    api = well(readiness={"kubernetes": {"clusters": {"lab": WELL}}})
    api.source.add({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0"}, [(api.now_ms(), 40.0)])
    with running(api.build()) as url:
        counters = findings(told(url))["counters"]
    assert "\n" not in counters["remedy"]
    assert counters["copy"].splitlines()[0].startswith("DCGM_FI_PROF_SM_ACTIVE")


def test_a_question_that_cannot_be_answered_is_a_finding_and_the_others_are_made() -> None:
    def broken_instant(*_: object) -> Any:
        raise StoreDamaged("samples", "7", "cut off")

    api = well()
    api.engines = lambda _lookback_ms: SimpleNamespace(instant=broken_instant)
    with running(api.build()) as url:
        found = findings(told(url))
    assert found["counters"]["what"].startswith("cannot be checked: part 7 of table samples is damaged")
    assert found["no_trackers"]["kind"] == "unconnected"


def test_it_looks_no_more_often_than_it_must_unless_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[DoctorAnswer] = []
    look = doctor.examination

    def counted(server: Any) -> DoctorAnswer:
        looks.append(look(server))
        return looks[-1]

    monkeypatch.setattr(doctor, "examination", counted)
    with running(well().build()) as url:
        first, second = told(url), told(url)
        assert len(looks) == 1
        assert first["examined_ms"] == second["examined_ms"]
        told(url, fresh="true")
        assert len(looks) == 2


def test_it_looks_by_itself_once_the_fleet_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    answer = DoctorAnswer(1, 1, 0, [], [])
    now_s = [0.0]

    def examined(server: Any) -> DoctorAnswer:
        looks.append(server)
        return answer

    async def looked(api: doctor.DoctorApi) -> None:
        await asyncio.to_thread(api.looked)
        if api._looking is not None:
            await api._looking

    async def begin() -> None:
        api = doctor.DoctorApi((), lambda: now_s[0])
        await looked(api)  # before the server has begun
        PageApis([api]).begun(AskedLoop(asyncio.get_running_loop()))
        await looked(api)
        now_s[0] = 100
        await looked(api)
        now_s[0] = 541
        await looked(api)

    monkeypatch.setattr(doctor, "examination", examined)
    asyncio.run(begin())
    assert len(looks) == 2


def test_a_token_keeps_others_out_and_the_checks_need_none() -> None:
    with running(build_app(replace(well().parts(), access=Access([ServerToken("secret")])))) as url:
        assert httpx.get(f"{url}/api/doctor").status_code == 401
        answer = httpx.get(f"{url}/api/doctor", headers={"Authorization": "Bearer secret"})
        assert answer.status_code == 200
        assert "cannot be checked" not in answer.text


def test_every_layer_has_its_area_and_every_advice_its_check() -> None:
    assert sorted(layer for area in AREAS for layer in area.layers) == sorted(x.name for x in OF_A_SERVER)
    checks = {check.__name__ for layer in OF_A_SERVER for check in layer.checks}
    checks |= {check.__name__ for every in UNCONNECTED.values() for check in every}
    assert set(ADVICE) <= checks
    assert {layer.name for layer in OF_A_SERVER} >= set(UNCONNECTED)


def test_who_says_nothing_is_waited_for_once_and_told_and_the_others_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_inside, "_WITHIN_S", 2.0)
    over = threading.Event()
    asked: list[object] = []

    def silent_instant(*question: object) -> Any:
        asked.append(question)
        over.wait(60)
        raise StoreError("too late")

    api = well()
    api.engines = lambda _lookback_ms: SimpleNamespace(instant=silent_instant)
    with running(api.build()) as url:
        try:
            found = findings(told(url))
        finally:
            over.set()
    told_checks = {check for check, one in found.items() if "did not answer" in one["what"]}
    assert {"counters", "agents", "clocks", "no_gpus"} <= told_checks
    assert found["counters"]["what"] == "cannot be checked: /api/v1/query did not answer in 2 s"
    assert found["counters"]["kind"] == "problem"
    assert found["no_trackers"]["kind"] == "unconnected"
    assert len(asked) < len(told_checks)


def test_a_source_that_is_known_not_to_answer_is_not_asked() -> None:
    away = {"url": "http://prometheus", "reachable": False, "since": "now", "error": "it did not answer"}
    api = well(readiness={"source": away}, ready=False)
    asked: list[object] = []
    api.engines = lambda _lookback_ms: SimpleNamespace(instant=lambda *question: asked.append(question))
    with running(api.build()) as url:
        found = findings(told(url))
    assert not asked
    assert found["source"]["what"].startswith("http://prometheus does not answer since now")
    assert found["counters"]["what"] == (
        "cannot be checked: http://prometheus, which has the samples, does not answer"
    )


@pytest.mark.parametrize("nonsense", [b"<html>login</html>", b"[1, 2]", b""])
def test_a_source_that_answers_nonsense_is_an_error_like_any_other(nonsense: bytes) -> None:
    """Which a check tells; what such a server answers is passed on as it came."""
    route = Route("/api/v1/query", lambda _request: Response(nonsense))

    async def ask() -> None:
        server = doctor_inside.InsideServer([route], AskedLoop(asyncio.get_running_loop()))
        with pytest.raises(ServerError, match="HTTP 200, and no"):
            await asyncio.to_thread(server.get, "/api/v1/query")

    asyncio.run(ask())


def test_a_question_is_asked_once_for_all_who_want_it_and_its_failure_is_theirs() -> None:
    asked: list[str] = []

    def get(path: str, params: Any) -> Any:
        asked.append(path)
        raise ServerError("broken") if path == "/broken" else ServerSilent("nothing")

    server = AskedOnce(cast("Any", SimpleNamespace(get=get)))
    for path, params in (("/broken", {}), ("/broken", {"a": "1"}), ("/silent", {}), ("/silent", {"a": "1"})):
        for _ in range(2):
            with pytest.raises(ServerError):
                server.get(path, params)
    assert asked == ["/broken", "/broken", "/silent"]
