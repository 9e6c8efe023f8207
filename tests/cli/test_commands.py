"""What the commands print, and how they end."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from command_here import trilens_here
from memory_api import Api, running
from trilens import __version__
from trilens.cli.client import Client
from trilens.cli.main import app
from trilens.cli.order import gives_an_order
from trilens.cli.series import series_text
from trilens.cli.table import columns_that_fit, sparkline
from trilens.cli.times import read_moment, read_step, show_moment
from trilens.model.errors import ConfigError, ServerError
from trilens_process import clean_environment, trilens

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = Path(__file__).parents[2] / "examples"
T0 = 1_700_000_000


@pytest.fixture(scope="module")
def url():
    api = Api()
    for gpu in range(2):
        labels = {"__name__": "power", "gpu": str(gpu), "job": 'a"b'}
        api.source.add(labels, [((T0 + 15 * i) * 1000, 100.5 * gpu + i) for i in range(5)])
    with running(api.build()) as base:
        yield base


ENGINE = ["numpy", "chdb", "clickhouse_connect", "pyarrow", "promql_parser", "starlette", "uvicorn", "yaml"]
PROGRAM = (
    "import sys; from trilens.cli.main import main\n"
    "try: main()\n"
    "except SystemExit: pass\n"
    "print(*sys.modules, file=sys.stderr)\n"
)


@pytest.mark.parametrize(
    ("arguments", "not_needed"),
    [
        (["--help"], [*ENGINE, "httpx", "pydantic", "rich", "ssl", "asyncio"]),
        (["version"], [*ENGINE, "httpx", "rich", "ssl", "asyncio"]),
        (["query", "power", "--server", "URL"], [*ENGINE, "trilens.promql", "trilens.store"]),
    ],
    ids=["help", "version", "query"],
)
def test_a_command_loads_only_what_it_needs(url: str, arguments: list[str], not_needed: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, *(url if a == "URL" else a for a in arguments)]
    said = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=True)
    loaded = set(said.stderr.split())
    assert "trilens.cli.main" in loaded
    assert not loaded.intersection(not_needed)


def test_certificates_are_read_only_where_they_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    make = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **named: read.append(named) or make(**named))
    Client("http://127.0.0.1:1")
    assert read == []
    Client("https://127.0.0.1:1")
    assert len(read) == 1


def test_help_names_every_command() -> None:
    said = trilens("--help")
    for command in ("up", "demo", "query", "backfill", "promql", "config", "version"):
        assert f"\n  {command} " in said.stdout


@pytest.mark.parametrize("of", [[], ["ledger"], ["cost"]])
def test_help_cuts_nothing_off(of: list[str]) -> None:
    said = trilens(*of, "--help", COLUMNS="80")
    _, commands = said.stdout.split("\nCommands:\n")
    assert "..." not in commands


def test_server_commands_say_what_is_missing_in_a_client_install(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('numpy', 'chdb', 'uvicorn', 'pyarrow', 'orjson', 'uvloop'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from trilens.cli.main import main\n"
        "sys.argv = ['trilens', *sys.argv[1:]]\n"
        "main()\n"
    )

    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=clean_environment(), cwd=tmp_path, check=False
        )

    for command in (["up"], ["demo"], ["promql", "test", __file__], ["query", "1", "--data", str(tmp_path)]):
        said = bare(*command)
        assert said.returncode == 2, said.stderr
        assert "pip install 'trilens[server]'" in said.stderr
        assert len(said.stderr.splitlines()) == 1
    assert bare("version").stdout == f"{__version__}\n"
    for asks in (["query", "1"], ["top", "--once"], ["workloads"], ["cost"], ["why", "a"]):
        assert bare(*asks, "--server", "http://127.0.0.1:1").returncode == 1, asks


def test_query_plain_text(url: str) -> None:
    said = trilens("query", "power", "--at", str(T0 + 30), "--server", url)
    assert said.stdout == 'power{gpu="0",job="a\\"b"} 2\npower{gpu="1",job="a\\"b"} 102.5\n'
    window = ("--start", "2023-11-14T22:13:20Z", "--end", "2023-11-14T22:13:35", "--step", "15s")
    said = trilens_here("query", "sum(power)", *window, TRILENS_SERVER=url)
    assert said.stdout == "{} 2023-11-14T22:13:20Z 100.5\n{} 2023-11-14T22:13:35Z 102.5\n"
    said = trilens_here("query", "power[20s]", "--at", str(T0 + 30), "--server", url)
    assert said.stdout.splitlines() == [
        f'power{{gpu="{gpu}",job="a\\"b"}} 2023-11-14T22:13:{second}Z {value}'
        for gpu, second, value in (("0", 35, "1"), ("0", 50, "2"), ("1", 35, "101.5"), ("1", 50, "102.5"))
    ]
    assert trilens_here("query", "1e21", "--server", url).stdout == "1000000000000000000000\n"
    nothing = trilens_here("query", "nothing", "--server", url)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "no series\n")


def test_series_are_sorted_by_their_labels_unless_the_query_sorts(url: str) -> None:
    def gpus(expression: str) -> list[str]:
        said = trilens_here("query", expression, "--at", str(T0 + 30), "--server", url)
        return [line.partition('gpu="')[2][0] for line in said.stdout.splitlines()]

    unsorted = "0 + sort_desc(power)"
    assert gpus(unsorted) == ["0", "1"]
    assert gpus("sort_desc(power)") == ["1", "0"]
    assert gpus("topk(2, power)") == ["1", "0"]
    plain = trilens_here("query", unsorted, "--at", str(T0 + 30), "--server", url, "--json")
    assert [series["metric"]["gpu"] for series in json.loads(plain.stdout)["result"]] == ["1", "0"]


def test_which_queries_give_an_order() -> None:
    for expression in ("sort(a)", " ( Sort_Desc (a))", "topk by (x) (1, a)", "bottomk without(x)(1, a)"):
        assert gives_an_order(expression)
    for expression in ("a", "sum(topk(1, a))", "topk", "sort_of_metric", 'sort{a="b"}', "topkx(1)"):
        assert not gives_an_order(expression)


def test_table_rows_are_sorted_by_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from trilens.cli import answer

    monkeypatch.setenv("COLUMNS", "30")
    metrics = [{"UUID": f"GPU-{9 - i}-0123456789-0123456789", "gpu": str(i)} for i in (10, 2, 1)]
    data = {
        "resultType": "vector",
        "result": [{"metric": metric, "value": [T0, metric["gpu"]]} for metric in metrics],
    }
    rows = [line.split()[0] for line in _printed(lambda: answer.show(data, pretty=True))[1:-1]]
    assert rows == ["1", "2", "10"]
    kept = _printed(lambda: answer.show(data, pretty=True, ordered=True))[1:-1]
    assert [line.split()[0] for line in kept] == ["10", "2", "1"]


def test_query_json_and_notes(url: str) -> None:
    said = trilens_here("query", "rate(power[1m])", "--at", str(T0 + 60), "--server", url, "--json")
    answer = json.loads(said.stdout)
    assert list(answer) == ["resultType", "result", "warnings", "infos"]
    assert answer["resultType"] == "vector"
    assert len(answer["infos"]) == 1
    plain = trilens_here("query", "rate(power[1m])", "--at", str(T0 + 60), "--server", url)
    assert plain.stderr.startswith("info: ")


def test_query_on_a_terminal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from trilens.cli import answer

    monkeypatch.setenv("COLUMNS", "80")
    shown = httpx.get(f"{url}/api/v1/query_range?query=power&start={T0}&end={T0 + 60}&step=15").json()["data"]
    lines = _printed(lambda: answer.show(shown, pretty=True))
    assert lines == [
        'power{job="a\\"b"}',
        "gpu  trend    min    avg    max   last",
        "0    ▁▃▅▆█      0      2      4      4",
        "1    ▁▃▅▆█  100.5  102.5  104.5  104.5",
    ]
    late = {**shown, "result": [shown["result"][0], {"metric": {"gpu": "9"}, "values": [[T0 + 60, "NaN"]]}]}
    last = _printed(lambda: answer.show(late, pretty=True, ordered=True))[-1]
    assert last.split() == ["9", "nan", "nan", "nan", "nan"]
    monkeypatch.setenv("COLUMNS", "30")
    assert _printed(lambda: answer.show(shown, pretty=True))[-1].startswith("1 ")
    one = {"resultType": "vector", "result": [{"metric": {"__name__": "up", "job": "é"}, "value": [T0, "1"]}]}
    assert _printed(lambda: answer.show(one, pretty=True)) == ['up{job="é"}', "value", "    1"]


@pytest.mark.parametrize("pretty", [True, False])
def test_native_histograms_are_named_and_not_shown(pretty: bool, capsys: pytest.CaptureFixture[str]) -> None:
    from trilens.cli import answer

    def shown(kind: str, *samples: dict[str, Any]) -> list[list[str]]:
        result = [{"metric": {"x": str(i)}, **sample} for i, sample in enumerate(samples)]
        answer.show({"resultType": kind, "result": result}, pretty=pretty)
        out, err = capsys.readouterr()
        assert err == "native histograms are not shown (--json has them)\n"
        return [line.split() for line in out.splitlines()]

    vector = shown("vector", {"histogram": [T0, {"count": "1"}]}, {"value": [T0, "7"]})
    assert [line[-1] for line in vector[-2:]] == ["<histogram>", "7"]
    mixed = {"values": [[T0 + 15, "3"]], "histograms": [[T0, {}]]}
    matrix = shown("matrix", {"histograms": [[T0, {}]]}, mixed)
    assert matrix[-2 if pretty else 0][-1] == "<histogram>"
    assert matrix[-1][-1] == "3"


def test_a_table_drops_first_what_says_least(monkeypatch: pytest.MonkeyPatch) -> None:
    from trilens.cli import answer

    columns = {
        "Hostname": [f"gpu-node-{i // 4}" for i in range(8)],
        "UUID": [f"GPU-{i}-0123456789-0123456789" for i in range(8)],
        "gpu": [str(i % 4) for i in range(8)],
        "instance": [f"10.0.0.{i // 4}:9400" for i in range(8)],
        "pod": [f"trainer-of-a-long-name-{i // 4}" for i in range(8)],
    }
    assert columns_that_fit(columns, 200) == list(columns)
    assert columns_that_fit(columns, 70) == ["Hostname", "gpu", "instance", "pod"]
    assert columns_that_fit(columns, 50) == ["Hostname", "gpu", "pod"]
    assert columns_that_fit(columns, 1) == ["gpu", "pod"]
    monkeypatch.setenv("COLUMNS", "60")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    data = {"resultType": "vector", "result": [{"metric": row, "value": [T0, "1"]} for row in rows]}
    lines = _printed(lambda: answer.show(data, pretty=True))
    assert lines[0].split() == ["Hostname", "gpu", "pod", "value"]
    assert lines[-1] == "not shown, as the rows differ without: UUID, instance (--json has all)"


def _printed(show) -> list[str]:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show()
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["query", "sum(", "--server", "URL"], 2, "1:5: parse error: unclosed left parenthesis"),
        (["query", "up", "--at", "yesterday"], 2, "cannot read the time 'yesterday'"),
        (["query", "up", "--end", "now"], 2, "--end and --step belong to a range"),
        (["query", "up", "--at", "now", "--start", "-1h"], 2, "give one of them"),
        (["query", "up", "--server", "localhost"], 2, "is not an http:// or https:// URL"),
        (["query", "up", "--server", "http://127.0.0.1:1"], 1, "no answer from http://127.0.0.1:1"),
        (["query", "up", "--start", "-1h", "--step", "5parsecs"], 2, "not a valid duration"),
        (["query", "up", "--data", "/nowhere", "--server", "URL"], 2, "give one of them"),
        (["query", "up", "--data", "/nowhere"], 2, "no such data directory: /nowhere"),
        (["query", "up", "--data", str(DOCS)], 2, "docs holds no Trilens data"),
        (["promql", "test", "/nowhere.test"], 2, "no such script: /nowhere.test"),
        (["promql", "test", str(DOCS)], 2, f"docs is a directory (name the scripts in it: {DOCS}/*.test)"),
        (["promql", "test", "/dev/null"], 2, "/dev/null evaluates nothing"),
        (["promql", "test", str(DOCS / "cli.md")], 2, "cli.md:3: no command: "),
        (["config", "check", "/nowhere.yaml"], 2, "cannot read the settings file /nowhere.yaml"),
    ],
)
def test_errors_are_one_line_with_a_code(url: str, arguments: list[str], code: int, message: str) -> None:
    said = trilens_here(*(url if a == "URL" else a for a in arguments))
    assert said.returncode == code
    assert said.stdout == ""
    assert message in said.stderr
    assert said.stderr.startswith("trilens: ")
    assert len(said.stderr.splitlines()) == 1


def test_too_many_requests_are_no_wrong_usage_and_say_when() -> None:
    limits = {"server.token": "b0ss", "access.requests_per_s": 0.01}
    with running(Api(overrides=limits).build()) as url:
        for _ in range(2):
            said = trilens_here("query", "1", "--server", url, TRILENS_TOKEN="b0ss")
    assert said.returncode == 1
    assert re.fullmatch(r"trilens: too many requests \(try again in \d+ s\)\n", said.stderr)


@pytest.mark.parametrize(
    ("status", "told", "body", "hint"),
    [
        (429, "7", "<html>slow down</html>", r"answered HTTP 429 \(try again in 7 s\)"),
        (429, "Wed, 01 Jan 2098 00:00:00 GMT", "", r"answered HTTP 429 \(try again in \d{9,} s\)"),
        (429, "Thu, 01 Jan 1998 00:00:00 GMT", "", r"answered HTTP 429 \(try again\)"),
        (429, "soon", "", r"answered HTTP 429 \(try again\)"),
        (429, None, "", r"answered HTTP 429 \(try again a little later\)"),
        (429, "3", '{"error": "much"}', r"much \(try again in 3 s\)"),
        (429, "3", '{"error": "much (wait)", "hint": "wait"}', r"much \(wait\)"),
        (503, "2", '{"error": "nobody leads"}', r"nobody leads \(try again in 2 s\)"),
        (503, None, '{"error": "full"}', "full"),
    ],
)
def test_when_to_try_again(
    monkeypatch: pytest.MonkeyPatch, status: int, told: str | None, body: str, hint: str
) -> None:
    """As a proxy in front says it, too."""
    headers = {"Retry-After": told} if told is not None else {}
    client = Client("http://127.0.0.1:1")
    answer = httpx.Response(status, headers=headers, text=body)
    monkeypatch.setattr(client._http, "request", lambda *_, **__: answer)
    with pytest.raises(ServerError) as refused:
        client.get("/api/workloads")
    assert refused.value.exit_code == 1
    assert re.fullmatch(rf"(http://127.0.0.1:1 )?{hint}", str(refused.value))


def test_debug_shows_the_traceback() -> None:
    said = trilens("--debug", "query", "up", "--at", "yesterday")
    assert "Traceback" in said.stderr
    assert said.returncode != 0


def test_usage_errors_end_with_2() -> None:
    for arguments in (["query"], ["query", "up", "--nonsense"], ["nonsense"]):
        assert trilens_here(*arguments).returncode == 2


def test_promql_test_counts_and_fails(tmp_path: Path) -> None:
    script = tmp_path / "a.test"
    script.write_text("load 1m\n  a 1 2 3\n\neval instant at 1m a\n  a 2\n\n", encoding="utf-8")
    said = trilens_here("promql", "test", str(script), "--json")
    assert said.returncode == 0
    assert said.stdout.startswith('{"passed": 1, "failed": 0, "excluded": 0, ')
    assert json.loads(said.stdout)["failures"] == []
    assert trilens_here("promql", "test", str(script)).stdout == "1 passed, 0 failed, 0 excluded\n"
    script.write_text("load 1m\n  a 1 2 3\n\neval instant at 1m a\n  a 7\n  b 8\n\n", encoding="utf-8")
    said = trilens_here("promql", "test", str(script), "--json")
    answer = json.loads(said.stdout)
    assert (said.returncode, answer["passed"], answer["failed"], answer["excluded"]) == (1, 0, 1, 0)
    assert [(x["file"], x["line"]) for x in answer["failures"]] == [(str(script), 4)]
    assert said.stderr.splitlines() == [
        f"{script}:4: a",
        "  another result",
        '    expected  {__name__="a"} 7',
        '              {__name__="b"} 8',
        '    got       {__name__="a"} 2',
    ]


def test_config_check(tmp_path: Path) -> None:
    for example in EXAMPLES.glob("*.yaml"):
        if example.name == "prices.yaml":
            continue  # no settings: test_prices_command.py checks it
        text = example.read_text(encoding="utf-8").replace("/etc/trilens/", f"{tmp_path}/")
        for secret in ("token", "agent-token", "clickhouse-password", "mimir-token", "wandb-key"):
            (tmp_path / secret).write_text("t", encoding="utf-8")
        (tmp_path / example.name).write_text(text, encoding="utf-8")
        said = trilens_here("config", "check", str(tmp_path / example.name))
        assert said.returncode == 0, said.stderr
        assert ": fine, " in said.stdout
    bad = tmp_path / "bad.yaml"
    bad.write_text("scrape: {scrape_configs: [{job_name: a, scrape_intervall: 5s}]}", encoding="utf-8")
    said = trilens_here("config", "check", str(bad))
    assert said.returncode == 2
    assert "scrape_intervall" in said.stderr


def test_every_command_and_option_is_documented() -> None:
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    from typer.main import get_command

    root = get_command(app)
    for name, command in root.commands.items():
        for path, leaf in _leaves(f"trilens {name}", command):
            assert f"## {path}\n" in written, f"{path} is missing in docs/cli.md"
            for parameter in leaf.params:
                for option in parameter.opts:
                    assert not option.startswith("--") or option in written, f"{path} {option}"


def _leaves(path: str, command):
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _leaves(f"{path} {name}", child)


def test_version() -> None:
    assert CliRunner().invoke(app, ["version"]).output == f"{__version__}\n"


def test_moments_and_steps() -> None:
    assert read_moment("now", 100.0) == 100
    assert read_moment("-1m30s", 100.0) == 10
    assert read_moment("1700000000.5", 0) == 1700000000.5
    assert read_moment("2023-11-14T23:13:20+01:00", 0) == T0
    assert read_step(None, 0, 100) == 1
    assert read_step(None, 0, 86_400) == 345
    assert read_step("1m", 0, 0) == 60
    with pytest.raises(ConfigError, match="not a valid duration"):
        read_step("1x", 0, 0)
    assert show_moment(T0 + 0.5) == "2023-11-14T22:13:20.500Z"


def test_sparklines_and_series() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5]) == "▁▁"
    assert sparkline([float("nan"), 1, float("inf"), 2]) == " ▁ █"
    assert len(sparkline(list(range(1000)))) == 40
    assert series_text({"__name__": "up"}) == "up"
    assert series_text({}) == "{}"
