"""Faults on demand: what is posted goes wrong now, what is deleted is mended, and all of them are told.

Nothing of it is for who watches the cluster: it is for who shows, or tries, what they make of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web
from pydantic import ValidationError

from trilens.simulate.scenario import Fault, complaint

if TYPE_CHECKING:
    from trilens.simulate.world import World

FAULTS: Final = "/faults"


class Faults:
    """Changes the world on the event loop that it serves on, and only there."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.get(FAULTS, self._all),
            web.post(FAULTS, self._strike),
            web.delete(FAULTS + r"/{number:\d+}", self._mend),
        ]

    async def _all(self, _: web.Request) -> web.Response:
        return _json([self._told(number) for number in range(len(self._world.truth.faults))])

    async def _strike(self, request: web.Request) -> web.Response:
        """A fault as scenarios have it, without its time."""
        try:
            asked = orjson.loads(await request.read())
        except orjson.JSONDecodeError as e:
            return web.Response(status=400, text=f"this is no JSON: {e}\n")
        if not isinstance(asked, dict):
            return web.Response(status=400, text='a JSON object is wanted, such as {"kind": "hang"}\n')
        try:
            fault = Fault.model_validate({**asked, "at": 0})
        except ValidationError as e:
            return web.Response(status=400, text="".join(f"{complaint(error)}\n" for error in e.errors()))
        if fault.job and all(job.name != fault.job for job in self._world.scenario.jobs):
            return web.Response(status=400, text=f"job: the scenario has no job {fault.job!r}\n")
        number = len(self._world.truth.faults)
        if self._world.strike(fault) is None:
            return web.Response(status=409, text=f"there is nothing that {fault.kind} could strike now\n")
        return _json(self._told(number), status=201)

    async def _mend(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        if number >= len(self._world.truth.faults):
            return web.Response(status=404, text=f"there is no fault {number}\n")
        if not self._world.mend(number):
            return web.Response(status=409, text=f"fault {number} is over, or stays until its job ends\n")
        return _json(self._told(number))

    def _told(self, number: int) -> dict[str, Any]:
        truth = self._world.truth
        told = asdict(truth.faults[number])
        job = truth.jobs.get(told["job_uid"])
        whose = {"namespace": job.namespace, "workload": job.name} if job is not None else {}
        return {"number": number, **told, **whose}


def _json(answer: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(answer), content_type="application/json")
