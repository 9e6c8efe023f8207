"""Every command that lists something prints it as CSV, too, and in one way."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_here import trilens_here
from http_target import HttpTarget
from trilens.cli.answer import sample_lines
from trilens.cli.csv_lines import apart, write_csv
from trilens.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

TERMINAL = Path(__file__).parents[2] / "docs" / "terminal.md"
_ONE_THING = "one thing from all sides, no list"
_VERDICT = "a verdict, no list"
_DONE = "what the command did, no list"
WHY_NOT = {
    "backfill": _DONE,
    "backup": _DONE,
    "bundle": _DONE,
    "config check": _VERDICT,
    "demo": "the answer is how a demonstration went",
    "fix approve": _DONE,
    "fix propose": "a few paragraphs: `fix log` is the list",
    "fix undo": _DONE,
    "flight": _VERDICT,
    "import jobs": _DONE,
    "import usage": _DONE,
    "ledger verify": _VERDICT,
    "lineage": "nested: --samples prints a line for each batch",
    "login": _DONE,
    "logout": _DONE,
    "logs": "lines of text as they are",
    "nccl": _VERDICT,
    "preflight": _VERDICT,
    "promql test": _VERDICT,
    "receivers test": _DONE,
    "restore": _DONE,
    "rules check": _VERDICT,
    "rules export": _DONE,
    "rules test": _VERDICT,
    "runs show": _ONE_THING,
    "show": _ONE_THING,
    "silences add": _DONE,
    "silences expire": _DONE,
    "spool send": _DONE,
    "token create": _DONE,
    "token hash": _ONE_THING,
    "token revoke": _DONE,
    "why": _VERDICT,
    "xid": _VERDICT,
}


def commands(command: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Each with its options; a group that is a command as well is one of them."""
    if path:
        yield path, {option for parameter in command.params for option in parameter.opts}
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}".strip())


def test_what_has_json_has_csv_or_says_why_not() -> None:
    from typer.main import get_command

    known = dict(commands(get_command(app)))
    with_json = {path for path, options in known.items() if "--json" in options}
    with_csv = {path for path, options in known.items() if "--csv" in options}
    assert with_json - with_csv == set(WHY_NOT)
    assert with_csv <= with_json


def test_what_has_no_json_is_named_in_the_docs() -> None:
    from typer.main import get_command

    known = dict(commands(get_command(app)))
    groups = {path.rpartition(" ")[0] for path in known}
    without = {path for path, options in known.items() if "--json" not in options} - groups
    said = next(line for line in TERMINAL.read_text().splitlines() if line.endswith("has neither."))
    assert set(re.findall(r"`([^`]+)`", said)) == without


def written(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    file = io.StringIO()
    write_csv(found, file)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def test_what_is_nested_has_columns_and_what_is_unknown_is_empty() -> None:
    first = {"name": "a", "phase": None, "ready": True, "told": ["x", "y"], "doubts": [{"text": "why"}]}
    second = {"name": 'b,"c"', "phase": {"reason": "", "of": {"s": 1.5}}, "ready": None, "told": []}
    assert written([first, second]) == [
        {
            "name": "a",
            "phase.reason": "",
            "phase.of.s": "",
            "ready": "true",
            "told": "x;y",
            "doubts": '[{"text": "why"}]',
        },
        {
            "name": 'b,"c"',
            "phase.reason": "",
            "phase.of.s": "1.5",
            "ready": "",
            "told": "",
            "doubts": "",
        },
    ]
    assert list(written([first, second])[0])[:3] == ["name", "phase.reason", "phase.of.s"]


def test_a_line_for_each_part() -> None:
    found = [{"gpu": 1, "holders": [{"pod": "a"}, {"pod": "b"}]}, {"gpu": 2, "holders": []}]
    assert written(apart(found, "holders")) == [
        {"gpu": "1", "holders.pod": "a"},
        {"gpu": "1", "holders.pod": "b"},
        {"gpu": "2", "holders.pod": ""},
    ]


def asked(path: str, data: Any, *arguments: str) -> tuple[int, str, str]:
    with HttpTarget() as server:
        server.say(json.dumps({"status": "success", "data": data}), path)
        return trilens_here(*arguments, "--server", f"http://{server.address}")


def test_a_command_prints_it() -> None:
    silence = {"id": "1a2b", "matchers": ["team=vision", "node=gpu-1"], "to_ms": 1, "comment": None}
    said = asked("/api/silences", [silence], "silences", "list", "--csv")
    assert said == (0, "id,matchers,to_ms,comment\n1a2b,team=vision;node=gpu-1,1,\n", "")


def test_of_nothing_there_are_no_columns() -> None:
    assert asked("/api/silences", [], "silences", "list", "--csv") == (0, "", "nothing is silenced\n")


def test_a_query_has_a_line_for_each_sample() -> None:
    series = [
        {"metric": {"__name__": "up", "job": "b"}, "value": [1700000000, "1"]},
        {"metric": {"__name__": "up", "job": "a", "pod": "p"}, "value": [1700000000, "0"]},
    ]
    lines = sample_lines({"resultType": "vector", "result": series}, ordered=False)
    at = "2023-11-14T22:13:20Z"
    assert written(lines) == [
        {"__name__": "up", "job": "a", "pod": "p", "time": at, "value": "0"},
        {"__name__": "up", "job": "b", "pod": "", "time": at, "value": "1"},
    ]
    assert sample_lines({"resultType": "scalar", "result": [1700000000, "2"]}, ordered=False) == [
        {"time": at, "value": "2"}
    ]


def test_two_forms_at_once_are_none() -> None:
    said = asked("/api/silences", [], "silences", "list", "--csv", "--json")
    assert (said.returncode, said.stdout) == (2, "")
    assert "give one of them" in said.stderr
