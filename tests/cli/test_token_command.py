"""`trilens token` and `trilens audit`, against a server of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from memory_api import Api, running
from trilens.cli.main import app
from trilens.model.access_token import read_token
from trilens.model.errors import ConfigError, ServerError
from workload_records import some_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOSS = "b0ss"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(Api(overrides={"server.token": BOSS}).build()) as found:
        yield found


@pytest.fixture
def trilens(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TRILENS_SERVER", url)
    monkeypatch.setenv("TRILENS_TOKEN", BOSS)

    def run(*words: str, token: str = BOSS) -> Any:
        return CliRunner().invoke(app, [*words], env={"TRILENS_TOKEN": token})

    return run


def test_a_token_from_its_making_to_its_end(trilens: Any) -> None:
    made = trilens("token", "create", "ci", "--right", "read", "--team", "nlp", "--expires", "90d")
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    given = read_token(secret)
    assert given is not None
    assert "not shown again" in made.stderr
    (listed,) = json.loads(trilens("token", "list", "--json").stdout)
    assert (listed["id"], listed["name"], listed["teams"]) == (given.id, "ci", ["nlp"])
    table = trilens("token", "list").stdout
    assert "team:nlp" in table
    assert given.secret not in table

    refused = trilens("token", "list", token=secret)
    assert isinstance(refused.exception, ServerError)
    assert "token:ci may not do this: it needs 'admin', and has read" in str(refused.exception)

    assert trilens("token", "revoke", given.id).stdout == f"{given.id} (ci) is revoked\n"
    unknown = trilens("token", "list", token=secret)
    assert "does not take the token" in str(unknown.exception)
    assert trilens("token", "list").stdout == ""
    assert "revoked" in trilens("token", "list", "--all").stdout

    audited = json.loads(trilens("audit", "--json").stdout)
    told = {(one["kind"], one["who"], one["route"]) for one in audited}
    assert ("change", "server token", "/api/tokens") in told
    assert f"token {given.id} 'ci': read of team nlp" in {one["detail"] for one in audited}
    assert ("change", "server token", "/api/tokens/{id}/revoke") in told
    assert ("refusal", "token:ci", "/api/tokens") in told
    assert "refusal" in trilens("audit").stdout
    assert trilens("audit", "--csv").stdout.startswith("t_ms,kind,who")
    assert json.loads(trilens("audit", "--who", "nobody", "--json").stdout) == []


def test_what_was_ended_before_one_that_is_not_there_is_said(trilens: Any) -> None:
    for words in ([], ["--json"]):
        secret = trilens("token", "create", "gone", "--right", "read").stdout.strip()
        given = read_token(secret)
        assert given is not None
        said = trilens("token", "revoke", given.id, "nosuch", "never", *words)
        assert isinstance(said.exception, ServerError)
        assert "there is no token 'nosuch'" in str(said.exception)
        if words:
            assert [one["id"] for one in json.loads(said.stdout)] == [given.id]
        else:
            assert said.stdout == f"{given.id} (gone) is revoked\n"
        assert trilens("token", "revoke", "nosuch", *words).stdout == ""


def test_the_audit_of_a_token_by_its_name_or_id(trilens: Any) -> None:
    secret = trilens("token", "create", "grafana-nlp", "--right", "read").stdout.strip()
    given = read_token(secret)
    assert given is not None
    trilens("token", "list", token=secret)  # is refused
    for who in ("token:grafana-nlp", "grafana-nlp", given.id, f"token {given.id}"):
        told = json.loads(trilens("audit", "--who", who, "--json").stdout)
        assert [one["who"] for one in told] == ["token:grafana-nlp"], who


@pytest.mark.parametrize(
    ("since", "until"), [("now", "-1h"), ("2020-02-01", "2020-01-01"), ("-1h", "2020-01-01")]
)
def test_a_span_that_ends_before_it_begins(trilens: Any, since: str, until: str) -> None:
    said = trilens("audit", "--since", since, "--until", until)
    if since == "-1h":  # before `until`, not before now
        assert said.exit_code == 0
        return
    assert isinstance(said.exception, ConfigError)
    assert "the last moment to ask about is before the first" in str(said.exception)


def test_a_right_that_there_is_not() -> None:
    said = CliRunner().invoke(app, ["token", "create", "x", "--right", "reed"])
    assert said.exit_code == 2
    assert "'reed' is not one of" in said.output
    assert "Value error" not in said.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["x", "--right", "admin", "--team", "a"], "admin is for all"),
        (["x", "--right", "intake", "--team", "a"], "cannot be bound to teams"),
        (["x", "--right", "read", "--expires", "soon"], "cannot read the time"),
        (["x", "--right", "read", "--expires", "90x"], "write 90d, "),
        (["", "--right", "read"], "NAME: a token needs a name"),
        (["x" * 201, "--right", "read", "--offline"], "of 200 characters at the most"),
        (["x", "--right", "read", "--expires", "-1d", "--offline"], "over before it is made"),
    ],
)
def test_what_makes_no_sense_is_said_before_anybody_is_asked(words: list[str], why: str) -> None:
    made = CliRunner().invoke(app, ["token", "create", *words, "--server", "http://127.0.0.1:9"])
    assert isinstance(made.exception, ConfigError)
    assert why in str(made.exception)


def test_the_hash_of_one_with_its_id() -> None:
    made = json.loads(
        CliRunner().invoke(app, ["token", "create", "--offline", "a", "--right", "read", "--json"]).stdout
    )
    entry, secret = made["entry"], made["secret"]
    assert CliRunner().invoke(app, ["token", "hash"], input=secret).stdout.strip() == entry["sha256"]
    told = json.loads(CliRunner().invoke(app, ["token", "hash", "--json"], input=secret).stdout)
    assert told == {"id": entry["id"], "sha256": entry["sha256"]}


def test_one_made_offline_as_json() -> None:
    words = ["token", "create", "--offline", "a", "--right", "intake", "--cluster", "c", "--json"]
    said = CliRunner().invoke(app, words)
    assert said.stderr == "no server was asked whether there are such teams and clusters\n"
    made = json.loads(said.stdout)
    given = read_token(made["secret"])
    assert given is not None
    assert made["entry"] | {"sha256": ""} == {
        "id": given.id,
        "name": "a",
        "sha256": "",
        "rights": ["intake"],
        "clusters": ["c"],
    }


def test_a_team_and_a_cluster_that_nobody_knows_are_said_and_the_token_is_made(tmp_path: Path) -> None:
    budget = {"team": "nlp", "amount": 1, "currency": "USD"}
    grant = {"users": ["ada"], "rights": ["read"], "clusters": ["prod"]}
    wanted = {"server.token": BOSS, "budgets.limits": [budget]}
    wanted |= {"access.grants": [grant], "access.proxy": {"trusted": ["10.0.0.0/8"]}}

    def said(url: str, *bounds: str) -> list[str]:
        words = ["token", "create", "x", "--right", "read", "--server", url, *bounds]
        made = CliRunner().invoke(app, words, env={"TRILENS_TOKEN": BOSS})
        assert made.exit_code == 0, made.output
        assert read_token(made.stdout.strip()) is not None
        return [line for line in made.stderr.splitlines() if line.startswith("warning: ")]

    with some_records(tmp_path) as records, running(Api(overrides=wanted, workloads=records).build()) as url:
        known = ("--team", "vision", "--team", "nlp", "--cluster", "lab", "--cluster", "prod")
        assert said(url) == said(url, *known) == []
        many = said(url, *(word for number in range(11) for word in ("--team", f"x{number:02}")))
        assert len(many) == 9
        assert many[-1] == "warning: 3 more names of teams are not known either"
        assert said(url, "--team", "visoin", "--team", "x", "--cluster", "zz") == [
            "warning: no workload of team 'visoin' is known, and no setting names it: did you mean 'vision'?",
            "warning: no workload of team 'x' is known, and no setting names it: there are nlp, vision",
            "warning: no workload or machine of cluster 'zz' is known, and no setting names it: "
            "there are lab, prod",
        ]


def test_a_server_that_asks_nobody_says_so() -> None:
    with running(Api().build()) as url:
        made = CliRunner().invoke(app, ["token", "create", "x", "--right", "read", "--server", url])
    assert "asks nobody for a token" in made.stderr
