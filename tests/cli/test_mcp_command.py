"""`trilens mcp`, asked by the real client over stdin and stdout, and the bounds of its answers."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client as McpClient

from memory_api import Api, running
from trilens.cli.client import Client
from trilens.cli.failure import report
from trilens.cli.mcp import server_of_tools
from trilens.cli.mcp_answer import ROOM, answer_text
from trilens_process import TRILENS, clean_environment
from workload_records import NOON_MS, some_records

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "t0ken"
QUESTIONS = "cost findings gpus incidents lineage metrics query runs show why workloads"
DOCS = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants a token, with workloads and 2,000 series."""
    with some_records(tmp_path_factory.mktemp("records")) as records:
        api = Api(workloads=records, overrides={"server.token": TOKEN})
        now_ms = time.time_ns() // 1_000_000
        for gpu in range(2000):
            api.source.add({"__name__": "power", "gpu": f"GPU-{gpu:08}"}, [(now_ms, 1.0 * gpu)])
        with running(api.build()) as base:
            yield base


async def asked(client: McpClient, tool: str, **arguments: Any) -> Any:
    said = await client.call_tool(tool, arguments)
    (content,) = said.content
    assert not said.is_error, content.text
    assert len(content.text) <= ROOM + 200
    return json.loads(content.text)


async def refused(client: McpClient, tool: str, **arguments: Any) -> str:
    said = await client.call_tool(tool, arguments)
    assert said.is_error
    return str(said.content[0].text)


async def test_an_assistant_asks_over_stdio(url: str) -> None:
    _, *module = TRILENS
    command = StdioServerParameters(
        command=sys.executable,
        args=[*module, "mcp", "--server", url],
        env=clean_environment(TRILENS_TOKEN=TOKEN),
    )
    async with McpClient(command) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert sorted(tools) == QUESTIONS.split()
        for tool in tools.values():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert 20 < len(tool.description or "") < 300
            assert f"| `{tool.name}` |" in DOCS
            for name, argument in tool.input_schema["properties"].items():
                assert argument.get("description"), f"{tool.name}: {name}"
        at = str(NOON_MS // 1000 + 300)
        found = await asked(client, "workloads", namespace="ml", at=at)
        assert {one["name"] for one in found["data"]} == {"train", "batch"}
        shown = await asked(client, "show", workload="ml/train", at=at)
        assert shown["data"]["workload"]["name"] == "train"
        assert shown["data"].keys() >= {"programs", "runs", "events", "members"}
        assert (await asked(client, "query", expression="sum(power)"))["data"]["result"][0]["value"][
            1
        ] == "1999000"
        assert await asked(client, "metrics", contains="POW") == {"data": {"power": ""}}
        for tool in ("findings", "incidents", "gpus", "runs"):
            assert "data" in await asked(client, tool)

        every = await asked(client, "query", expression="power")
        kept = every["data"]["result"]
        assert 3 < len(kept) < 2000
        assert every["cut"] == {"data.result": f"the first {len(kept)} of 2000"}
        assert next(iter(every)) == "cut"

        assert "trilens workloads lists them" in await refused(client, "show", workload="nobody")
        assert "parse error" in await refused(client, "query", expression="sum(")
        assert "ask one question" in await refused(client, "lineage", run="a", step=1, spikes=True)
        assert "leave out since and to" in await refused(client, "cost", question="now", since="-1h")
        assert "severity" in await refused(client, "findings", severity="bad")


async def test_it_may_see_what_the_token_may(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRILENS_TOKEN", raising=False)
    with Client(url) as nobody:
        async with McpClient(server_of_tools(nobody)) as client:
            assert "set TRILENS_TOKEN" in await refused(client, "workloads")


async def test_every_tool_asks_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server answers is tested with it; here, what it is asked, and that it is only asked."""
    asked_for: list[tuple[str, dict[str, Any]]] = []
    client = Client("http://127.0.0.1:1")

    def get(path: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        asked_for.append((path, params or {}))
        if path == "/api/runs":
            return {"data": {"runs": [{"run": "r1", "name": "", "state": "running"}], "next": None}}
        return {"data": [{"step": 7, "stretch": 1, "ok": True, "start_ms": 5}]}

    monkeypatch.setattr(client, "get", get)
    async with McpClient(server_of_tools(client)) as assistant:
        for tool, arguments in (
            ("why", {"subject": "node/n1", "since": "1700000000"}),
            ("cost", {"by": ["team", "node"], "where": ["team=a"]}),
            ("cost", {"question": "wasted", "since": "1700000000"}),
            ("cost", {"question": "now"}),
            ("lineage", {"sample": "a/b"}),
            ("lineage", {"run": "r1", "checkpoint": "/ckpt/7"}),
            ("lineage", {"run": "r1", "spikes": True, "value": "grad"}),
            ("lineage", {"run": "r1", "step": 3}),
            ("incidents", {"incident": "a/1"}),
            ("incidents", {"team": "vision", "also_over": True}),
            ("gpus", {"lost": True}),
            ("runs", {"run": "r1"}),
        ):
            await asked(assistant, tool, **arguments)
    assert [one for one in asked_for if one[0] != "/api/runs"] == [
        ("/api/why", {"subject": "node/n1", "from": "1700000000.000"}),
        ("/api/cost", {"where": ["team=a"], "by": ["team", "node"]}),
        ("/api/cost/why", {"from": "1700000000.000"}),
        ("/api/cost/now", {"by": []}),
        ("/api/samples/a%2Fb", {}),
        ("/api/runs/r1/checkpoints", {"path": "/ckpt/7"}),
        ("/api/runs/r1/checkpoints/7", {"stretch": "1"}),
        ("/api/runs/r1/spikes", {"value": "grad"}),
        ("/api/runs/r1/steps/3", {}),
        ("/api/incidents/a%2F1", {}),
        ("/api/incidents", {"team": "vision", "all": "true"}),
        ("/api/gpus", {"lost": "true"}),
        ("/api/runs/r1", {}),
    ]


def test_what_fits_is_left_as_it_is() -> None:
    answer = {"data": [{"a": "ü", "b": None}]}
    assert answer_text(answer) == '{"data":[{"a":"ü","b":null}]}'


def test_outer_lists_are_cut_before_inner_ones() -> None:
    answer = {"data": {"ranks": [{"steps": list(range(10))} for _ in range(100)], "few": [1, 2]}}
    told = json.loads(answer_text(answer, room=500))
    kept = told["data"]["ranks"]
    assert told["cut"] == {"data.ranks": f"the first {len(kept)} of 100"}
    assert kept[0]["steps"] == list(range(10))
    assert len(answer["data"]["ranks"]) == 100  # the answer itself is not touched


def test_then_inner_lists_and_long_texts_and_at_last_all() -> None:
    inner = json.loads(answer_text({"data": [{"steps": list(range(500))}] * 3}, room=600))
    assert inner["cut"].keys() == {"data[].steps"}
    assert all(3 <= len(one["steps"]) < 500 for one in inner["data"])
    text = json.loads(answer_text({"data": {"log": "x" * 5000}}, room=1000))
    assert text["data"]["log"] == "x" * 500 + "…"
    assert text["cut"].keys() == {"data.log"}
    wide = json.loads(answer_text({"data": {f"name{i}": i for i in range(1000)}}, room=1000))
    assert "ask about less" in wide["cut"]["all"]
    assert len(wide["beginning"]) == 1000


def test_without_the_package_it_says_which_extra_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ModuleNotFoundError("No module named 'mcp'", name="mcp")) == 2
    assert "pip install 'trilens[mcp]'" in capsys.readouterr().err
