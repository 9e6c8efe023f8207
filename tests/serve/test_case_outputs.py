"""What pods wrote, from agents: what they tell, and of whom nobody tells."""

from __future__ import annotations

import asyncio
from typing import Any

from trilens.model.errors import NotFound
from trilens.model.workload import PodKey
from trilens.serve.cases.outputs import ask_outputs, untold_outputs

TOLD, EMPTY, SILENT, ALONE = (PodKey("lab", "ml", name, f"u-{name}") for name in "abcd")
PLACES = {TOLD: "n1", EMPTY: "n1", SILENT: "n2", ALONE: "n3", PodKey("lab", "ml", "waits", "u"): ""}


class Agents:
    """One for each of two nodes: the second does not answer."""

    names = ()

    async def output(self, _cluster: str, node: str, _namespace: str, pod: str) -> list[dict[str, Any]]:
        if node == "n3":
            raise NotFound("no agent is known on the node 'n3'")
        if node == "n2":
            await asyncio.Event().wait()
        runs = [{"run": 1, "lines": ["now"]}, {"run": 0, "lines": ["before"]}] if pod == TOLD.name else []
        containers = [{"container": "main", "runs": runs, "termination_messages": []}]
        return [{"pods": [{"uid": f"u-{pod}", "containers": containers}]}]


async def test_who_tells_and_who_does_not() -> None:
    soon = asyncio.get_running_loop().time() + 0.2
    found = await ask_outputs(Agents(), PLACES, {TOLD: 7}, soon)  # type: ignore[arg-type]
    assert [(one.pod, one.rank, one.name, one.lines) for one in found.logs] == [
        (TOLD, 7, "main (run 0)", ("before",)),
        (TOLD, 7, "main", ("now",)),
    ]
    assert found.untold == {
        EMPTY: "",
        SILENT: "the agent of n2 did not answer in time",
        ALONE: "no agent is known on the node 'n3'",
    }
    assert [one.what for one in untold_outputs(found.untold)] == [
        "what c wrote: the agent of n2 did not answer in time",
        "what d wrote: no agent is known on the node 'n3'",
    ]


async def test_where_no_agent_is_asked() -> None:
    found = await ask_outputs(None, PLACES, {}, 0)
    assert set(found.untold) == {TOLD, EMPTY, SILENT, ALONE}
    (missing,) = untold_outputs(found.untold)
    assert missing.what == "what a, b, c and 1 more pods wrote: no agent is asked"
    assert "trilens agent" in missing.remedy
