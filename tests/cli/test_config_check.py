"""`trilens config check`, and where settings errors say they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from command_here import trilens_here
from trilens.cli.main import app
from trilens_process import trilens

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
USABLE = """
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: x}}]
"""


def write(directory: Path, name: str, text: str) -> str:
    (directory / name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server:\n  listen: localhost\n", "a.yaml:2:3: server.listen: 'localhost' is not HOST:PORT"),
        ("storage:\n  retention: 1x\n", "a.yaml:2:3: storage.retention: not a valid duration"),
        ("storage:\n  datadir: x\n", "a.yaml:2:3: unknown setting 'storage.datadir' (did you mean"),
        ("query: 5\n", "a.yaml:1:1: query: "),
        (
            "storage:\n  retention: 5d\n  retention: 6d\n",
            "a.yaml:3:3: the key 'retention' is given a second time",
        ),
        ("a: [\n", "a.yaml:2:1: not valid YAML: "),
        ("- 1\n", "a.yaml:1:1: expected settings by name, got list"),
        ("server: {token: 'é'}\n", "a.yaml:1:10: server.token: may hold only printable ASCII"),
        ("source:\n  bearer_token: 'é'\n", "a.yaml:2:3: source.bearer_token: may hold only printable ASCII"),
        ("server: {listen: ':9333'}\n", "a.yaml: refusing to listen on :9333 without a token"),
        ("server: {tls_cert_file: x, tls_key_file: x}\n", "a.yaml: cannot use the certificate x"),
        (
            "scrape:\n  scrape_configs:\n"
            "    - job_name: a\n      static_configs:\n        - targets: [http://x/y]\n",
            "a.yaml:5:11: scrape.scrape_configs[0].static_configs[0].targets: 'http://x/y' is not host:port",
        ),
        (
            "scrape:\n  global: {scrape_interval: 5x}\n  scrape_configs:\n    - job_name: a\n",
            "a.yaml:2:12: scrape.global.scrape_interval: not a valid duration",
        ),
        (
            "scrape:\n  scrape_configs:\n    - job_name: a\n    - job_name: a\n",
            "a.yaml:4:7: scrape.scrape_configs[1].job_name: there is another job 'a'",
        ),
        (
            "scrape: {config_file: p.yml}\n",
            "p.yml:3:4: scrape_configs[0].consul_sd_configs: not supported yet",
        ),
        (
            "scrape:\n  scrape_configs: [{job_name: a, tls_config: {ca_file: no.pem}}]\n",
            "a.yaml: cannot use the certificates of tls_config",
        ),
    ],
)
def test_an_error_says_file_line_and_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    write(tmp_path, "p.yml", "scrape_configs:\n - job_name: x\n   consul_sd_configs: [{}]\n")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["config", "check", write(tmp_path, "a.yaml", text)])
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith(f"trilens: {message}"), said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_several_files_are_all_looked_at(tmp_path: Path) -> None:
    jobs = (
        "[{job_name: a, static_configs: [{targets: ['n:1']}]}, {job_name: b}, "
        "{job_name: c, file_sd_configs: [{files: [no.json]}]}]"
    )
    files = [
        write(tmp_path, "good.yaml", f"scrape: {{scrape_configs: {jobs}}}\n"),
        write(tmp_path, "bad.yaml", "storage: {retention: 5}\n"),
        write(tmp_path, "empty.yaml", "# nothing yet\n"),
        "missing.yaml",
    ]
    said = trilens_here("config", "check", *files, cwd=tmp_path)
    assert said.returncode == 2
    assert said.stdout == "good.yaml: fine, 3 scrape jobs\nempty.yaml: fine, 0 scrape jobs\n"
    told = said.stderr.splitlines()
    assert told[0] == "good.yaml: warning: the job 'b' has no targets"
    assert told[1] == "good.yaml: warning: the job 'c': there is no file no.json yet"
    assert told[2].startswith("trilens: bad.yaml:1:11: storage.retention: ")
    assert told[3] == "empty.yaml: warning: the file is empty: every setting has its default"
    assert told[4].startswith("trilens: cannot read the settings file missing.yaml")
    assert len(told) == 5

    found = json.loads(trilens_here("config", "check", "--json", *files, cwd=tmp_path).stdout)
    assert found["ok"] is False
    assert [(one["file"], one["ok"], one["jobs"]) for one in found["files"]] == [
        ("good.yaml", True, 3),
        ("bad.yaml", False, 0),
        ("empty.yaml", True, 0),
        ("missing.yaml", False, 0),
    ]
    assert found["files"][1]["where"] == "bad.yaml:1:11"
    assert found["files"][1]["error"].startswith("bad.yaml:1:11: storage.retention: ")


@pytest.mark.parametrize(
    ("arguments", "environ", "origin"),
    [
        (["up", "--listen", "foo"], {}, "--listen"),
        (["up"], {"TRILENS_SERVER_LISTEN": "foo"}, "TRILENS_SERVER_LISTEN"),
        (["demo", "--listen", "foo"], {}, "--listen"),
        (["demo", "--interval", "5"], {}, "--interval"),
    ],
)
def test_a_bad_option_is_not_blamed_on_the_file(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], origin: str
) -> None:
    write(tmp_path, "trilens.yaml", "server:\nstorage: {retention: 5d}\n")
    said = trilens(*arguments, cwd=tmp_path, **environ)
    assert said.returncode == 2
    assert said.stderr.startswith(f"trilens: {origin}: ")
    assert "trilens.yaml" not in said.stderr


@pytest.mark.parametrize(
    ("cluster", "kubeconfig", "message"),
    [
        (
            "{kubeconfig: k}",
            None,
            "a.yaml:3:11: kubernetes.clusters.lab.kubeconfig: cannot read the kubeconfig",
        ),
        ("{kubeconfig: k}", "contexts: []", "k: the kubeconfig: it has no current-context"),
        ("{kubeconfig: k, context: b}", USABLE, "no context 'b' among its contexts (a)"),
        ("{kubeconfig: k}", USABLE.replace("token: x", "client-certificate: no.pem"), "go together"),
        ("{kubeconfig: k}", USABLE.replace("server:", "certificate-authority: no.pem, server:"), "no.pem"),
        (
            "{kubeconfig: k, add: [Servce]}",
            USABLE,
            "a.yaml:3:26: kubernetes.clusters.lab.add: Trilens does not",
        ),
        ("{kubeconfig: k, leave_out: [Evnt]}", USABLE, "kubernetes.clusters.lab.leave_out: Trilens does not"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_said_at_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, kubeconfig: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a.yaml", f"kubernetes:\n  clusters:\n    lab: {cluster}\n")
    if kubeconfig is not None:
        write(tmp_path, "k", kubeconfig)
    said = CliRunner().invoke(app, ["config", "check", "a.yaml"])
    assert said.exit_code == 2
    assert message in said.output
    assert len(said.output.splitlines()) == 1


LOGIN = """
server: {listen: ':9333', external_url: 'https://t.example'}
access:
  oidc: {issuer: 'https://login.example', client_id: t%s}
  grants: [{users: [ada], rights: [read]}]
  session_key_file: key
"""


@pytest.mark.parametrize(
    ("key", "more", "message"),
    [
        (None, "", "cannot read the session key key: No such file"),
        ("short", "", "key holds no session key"),
        ("A" * 43 + "=", ", ca_file: no.pem", "cannot use the certificates no.pem"),
        ("A" * 43 + "=", "", None),
    ],
)
def test_the_files_of_logins_are_read_and_a_server_stops_before_its_store(
    tmp_path: Path, key: str | None, more: str, message: str | None
) -> None:
    write(tmp_path, "a.yaml", LOGIN % more)
    if key is not None:
        write(tmp_path, "key", key)
    said = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    if message is None:
        assert (said.returncode, said.stderr) == (0, "")
        return
    assert said.returncode == 2
    assert message in said.stderr
    started = trilens("up", "--config", "a.yaml", "--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path)
    assert started.returncode == 2
    assert message in started.stderr
    assert not (tmp_path / "data").exists()


def test_it_agrees_with_a_server_of_the_same_environment(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "storage: {retention: 5d}\n")
    here = {"TRILENS_TOKEN_FILE": "/nowhere", "TRILENS_CLUSTER": "lab"}
    assert trilens_here("config", "check", "a.yaml", cwd=tmp_path, **here).returncode == 0
    misspelt = {"TRILENS_STORAGE_DATADIR": "x"}
    started = trilens("up", "--config", "a.yaml", cwd=tmp_path, **misspelt)
    said = trilens_here("config", "check", "a.yaml", cwd=tmp_path, **misspelt)
    assert (started.returncode, said.returncode) == (2, 2)
    assert said.stderr == started.stderr
    assert said.stderr.startswith("trilens: the environment: unknown setting 'TRILENS_STORAGE_DATADIR'")
    assert trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path, **misspelt).returncode == 0


ELSEWHERE = """
server: {listen: ':9333', token_file: no/server, tls_cert_file: no/c, tls_key_file: no/k}
agent: {token_file: no/agent}
storage: {url: 'http://clickhouse:8123/trilens', username: trilens, password_file: no/clickhouse}
access:
  tokens_file: no/tokens
  session_key_file: no/key
  oidc: {issuer: 'https://login.example', client_id: t, client_secret_file: no/secret, ca_file: no/ca}
  grants: [{users: [ada], rights: [read]}]
scrape: {scrape_configs: [{job_name: a, tls_config: {ca_file: no/scrape}}]}
rules: {files: [no/rules, no/more]}
prices: {file: no/prices}
cure: {policy: no/policy}
kubernetes: {clusters: {lab: {kubeconfig: no/one}, prod: {kubeconfig: no/two}}}
"""


def test_settings_of_another_machine_are_looked_at_without_their_secrets(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", ELSEWHERE)
    assert trilens_here("config", "check", "a.yaml", cwd=tmp_path).returncode == 2
    said = trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (0, "a.yaml: fine, 1 scrape job\n"), said.stderr
    told = [line for line in said.stderr.splitlines() if "not looked at" in line]
    named = [re.findall(r"no/\w+", line)[0] for line in told]
    assert all(line.startswith("a.yaml: warning: not looked at: cannot ") for line in told[:-2])
    assert named == [
        *("no/server", "no/clickhouse", "no/tokens", "no/secret", "no/key", "no/ca"),
        *("no/agent", "no/c", "no/scrape"),
        *("no/rules", "no/more", "no/prices", "no/policy", "no/one", "no/two"),
    ]


def test_what_is_there_must_be_right_elsewhere_too(tmp_path: Path) -> None:
    (tmp_path / "no").mkdir()
    for file, text, error in (
        ("no/key", "short", "holds no session key"),
        ("no/rules", "groups: 5", "groups: "),
        ("no/two", "contexts: []", "it has no current-context"),
        ("no/ca", "no certificate", "cannot use the certificates no/ca"),
    ):
        write(tmp_path, "a.yaml", ELSEWHERE)
        write(tmp_path, file, text)
        said = trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path)
        assert said.returncode == 2, file
        assert error in said.stderr
        (tmp_path / file).unlink()
    assert trilens_here("config", "check", "--elsewhere", "missing.yaml", cwd=tmp_path).returncode == 2


VARIABLES = """
alerting:
  receivers:
    ml: {slack: {url: '${OF_SLACK}'}}
    oncall: {pagerduty: {routing_key: '${OF_PAGERDUTY}'}}
    bot: {webhook: {url: 'http://bot', secret: '${OF_BOT}', bearer_token: '${OF_BOT}'}}
    night: {mail: {server: 'm:25', from: a@b, to: [c@d], username: u, password: '${OF_MAIL}'}}
    all: {alertmanager: {url: 'http://am:9093', username: u, password: '${OF_ALERTMANAGER}'}}
"""


def test_variables_of_another_machine_are_named_too(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", VARIABLES)
    here = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    assert (here.returncode, "the environment has no OF_SLACK" in here.stderr) == (2, True)
    said = trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stderr.splitlines() == [
        f"a.yaml: warning: not looked at: the variable {name} is not set"
        for name in ("OF_SLACK", "OF_PAGERDUTY", "OF_BOT", "OF_MAIL", "OF_ALERTMANAGER")
    ]
    wrong = trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path, OF_SLACK="ftp://x")
    assert wrong.returncode == 2
    assert "ml.slack: the webhook's URL is not an http:// or https:// URL" in wrong.stderr
    again = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    assert again.returncode == 2, "what was absent elsewhere is an error here"


def test_the_password_of_the_tables_is_read_as_a_server_would(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "storage: {url: 'http://c:8123/t', username: t, password_file: secret}\n")
    said = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    assert said.returncode == 2
    assert "cannot read the ClickHouse password from" in said.stderr
    write(tmp_path, "secret", "x")
    assert trilens_here("config", "check", "a.yaml", cwd=tmp_path).returncode == 0


def test_the_login_of_the_docs_can_be_checked_before_it_is_installed(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", OPERATIONS.read_text(encoding="utf-8"), re.DOTALL)
    (values,) = [yaml.safe_load(one) for one in blocks if "client_secret_file" in one]
    write(tmp_path, "a.yaml", yaml.safe_dump(values["config"]))
    said = trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "not looked at: cannot read the client secret from /etc/trilens/login/client-secret" in said.stderr


def test_tokens_that_let_in_nobody_or_anybody_are_warned_of(tmp_path: Path) -> None:
    write(tmp_path, "tokens.yaml", "tokens:\n")
    write(tmp_path, "a.yaml", "server: {listen: ':9333'}\naccess: {tokens_file: tokens.yaml}\n")
    said = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    assert said.returncode == 0
    (line,) = said.stderr.splitlines()
    assert line.startswith("a.yaml: warning: nobody can come in yet: tokens.yaml has no token that is valid")
    token = f"{{id: a, name: a, sha256: {'0' * 64}, rights: [admin]}}"
    write(tmp_path, "tokens.yaml", f"tokens: [{token}]\n")
    assert trilens_here("config", "check", "a.yaml", cwd=tmp_path).stderr == ""
    write(tmp_path, "a.yaml", "server: {listen: ':9333', token: x}\n")
    said = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    assert said.stderr.startswith("a.yaml: warning: the server's token has fewer than 16 characters, and")
    write(tmp_path, "a.yaml", "access: {tokens_file: no/tokens}\n")
    said = trilens_here("config", "check", "--elsewhere", "a.yaml", cwd=tmp_path)
    (line,) = said.stderr.splitlines()
    assert line.startswith("a.yaml: warning: not looked at: cannot read")


def test_clusters_that_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "k", USABLE)
    write(tmp_path, "a.yaml", "kubernetes: {clusters: {lab: {kubeconfig: k}, prod: {in_cluster: true}}}\n")
    said = CliRunner().invoke(app, ["config", "check", "a.yaml"])
    assert said.exit_code == 0, said.output
    assert "a.yaml: warning: the cluster 'prod': in_cluster can be checked only in a pod" in said.output


UNHEARD = """
alerting:
  receivers:
    ml: {slack: {url_file: slack-url}}
    oncall: {pagerduty: {routing_key: key}}
    all: {alertmanager: {url: "http://127.0.0.1:9093"}}
  routes:
    - {matchers: [team="ml"], to: [ml]}
    - {to: []}
    - {to: [ml]}
"""


def test_receivers_that_would_hear_nothing_are_warned_of(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", UNHEARD)
    said = trilens_here("config", "check", "a.yaml", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert said.stderr.splitlines() == [
        "a.yaml: warning: the receiver 'ml': there is no file slack-url yet",
        "a.yaml: warning: no route leads to the receiver 'oncall'",
        "a.yaml: warning: routes[1] has no matchers, so that those after it are never looked at",
    ]
    write(tmp_path, "slack-url", "http://127.0.0.1:1/x")
    write(tmp_path, "a.yaml", UNHEARD.replace("to: []", "to: [oncall], continue: true"))
    assert trilens_here("config", "check", str(tmp_path / "a.yaml")).stderr == ""
