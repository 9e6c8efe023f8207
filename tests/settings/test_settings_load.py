"""Where a setting comes from, who wins, and what a mistake sounds like."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

import trilens
from trilens.model.errors import ConfigError, UnknownSetting
from trilens.settings.client import load_client_settings
from trilens.settings.load import CONFIG_VARIABLE, load_settings
from trilens.settings.programs import VARIABLES_OF_PROGRAMS


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "trilens.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_command_line_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path, "query: {timeout: 10s, max_series: 5, concurrency: 2}")
    environ = {"TRILENS_QUERY_TIMEOUT": "20s", "TRILENS_QUERY_MAX_SERIES": "6"}
    query = load_settings(file, {"query.timeout": "30s", "query.max_samples": None}, environ).query
    assert query.timeout == timedelta(seconds=30)
    assert query.max_series == 6
    assert query.concurrency == 2
    assert query.max_samples == 50_000_000


def test_a_group_whose_name_has_an_underscore_is_read_from_the_environment() -> None:
    settings = load_settings(environ={"TRILENS_REMOTE_WRITE_URL": "http://prometheus:9090/api/v1/write/"})
    assert settings.remote_write.url == "http://prometheus:9090/api/v1/write"


def test_lists_come_from_the_environment_with_commas() -> None:
    settings = load_settings(environ={"TRILENS_SERVER_ALLOWED_HOSTS": "a.example, b.example"})
    assert settings.server.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("text", "path", "nearest"),
    [
        (
            "kubernetes: {clusters: {eu.a: {kubeconfg: x}}}",
            "kubernetes.clusters.eu.a.kubeconfg",
            "kubernetes.clusters.eu.a.kubeconfig",
        ),
        ("kubernetes: {clusters: {lab: {zzz: x}}}", "kubernetes.clusters.lab.zzz", None),
        ("query: {max_sample: 1}", "query.max_sample", "query.max_samples"),
        ("quary: {timeout: 1s}", "quary", "query"),
        ("server: {retention: 30d}", "server.retention", "storage.retention"),
        ("listen: ':9333'", "listen", "server.listen"),
        ("zzz: 1", "zzz", None),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(
    tmp_path: Path, text: str, path: str, nearest: str | None
) -> None:
    with pytest.raises(UnknownSetting) as caught:
        load_settings(write(tmp_path, text), environ={})
    assert (caught.value.path, caught.value.nearest) == (path, nearest)
    assert path in str(caught.value)


def test_a_misspelt_variable_is_an_error_but_other_programs_names_are_not() -> None:
    with pytest.raises(UnknownSetting) as caught:
        load_settings(environ={"TRILENS_STORAGE_DATADIR": "x"})
    assert caught.value.nearest == "TRILENS_STORAGE_DATA_DIR"
    # Kubernetes writes these for a Service called trilens-server.
    load_settings(
        environ={
            "TRILENS_SERVER_SERVICE_HOST": "10.0.0.1",
            "TRILENS_SERVER_PORT": "tcp://10.0.0.1:9333",
            "TRILENS_SERVER_PORT_9333_TCP_ADDR": "10.0.0.1",
        }
    )


def test_no_variable_of_a_client_or_of_a_program_stops_a_server() -> None:
    """All that the sources read, whoever of them it is that reads it."""
    sources = Path(trilens.__file__).parent.rglob("*.py")
    named = {name for file in sources for name in re.findall(r'"(TRILENS_\w+)"', file.read_text())}
    assert {"TRILENS_TOKEN_FILE", "TRILENS_CLUSTER", "TRILENS_STALL_AFTER_S"} <= named
    assert named - {CONFIG_VARIABLE, "TRILENS_"} == VARIABLES_OF_PROGRAMS
    load_settings(environ=dict.fromkeys(VARIABLES_OF_PROGRAMS, "x"))
    load_settings(environ={"TRILENS_TOKENFILE": "x"})  # misspelt, and not a server's either


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query: {timeout: 15}", "write 15s if 15 means seconds"),
        ("query: {timeout: 1x}", "not a valid duration: '1x'"),
        ("query: [1]", "query: "),
        ("- 1", "expected settings by name"),
        ("a: [", "not valid YAML"),
        ("a: 1\x00", "not valid YAML"),
        ("a: 1\n---\nb: 2", "trilens.yaml:2:1: not valid YAML"),
        (
            "storage: &s {retention: 5d}\nquery: {<<: *s}",
            "trilens.yaml:1:14: unknown setting 'query.retention'",
        ),
        ("server: {listen: localhost}", "is not HOST:PORT"),
        ("server: {listen: '::1:80'}", "IPv6 address in brackets"),
        ("source: {url: 'ftp://x'}", "is not an http:// or https:// URL"),
        ("source: {url: 'http://x', username: u, bearer_token: t}", "not both"),
        ("server: {token: t, token_file: f}", "server: give token or token_file, not both"),
        ("source: {url: 'http://x', username: u, password: p, password_file: f}", "password_file, not both"),
        ("source: {url: 'http://u:p@x', bearer_token: t}", "the URL holds a user"),
        ("source: {url: 'http://u:p@x', bearer_token_file: t}", "the URL holds a user"),
        ("source: {url: 'http://u@x', username: u}", "the URL holds a user"),
        ("remote_write: {url: 'http://u:p@x', headers: {authorization: t}}", "the URL holds a user"),
        ("source: {url: 'ftp://u:hunter2@x'}", "'ftp://<secret>@x' is not an http"),
        ("source: {cert_file: a.pem}", "go together"),
        ("scrape: {config_file: p.yml, scrape_configs: [{job_name: a}]}", "not both"),
        ("{source: {url: 'http://x'}, scrape: {scrape_configs: [{job_name: a}]}}", "never be seen"),
    ],
)
def test_a_bad_value_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write(tmp_path, text), environ={})
    assert message in str(caught.value)


def test_words_that_yaml_takes_for_truth_values_are_words(tmp_path: Path) -> None:
    text = "agent: {gpu_metrics: off, kernel_log: off}\nagents: {this_machine: on}\n"
    text += "kubernetes: {state_metrics: no}"
    found = load_settings(write(tmp_path, text), environ={})
    assert (found.agent.gpu_metrics, found.agent.kernel_log) == ("off", "off")
    assert (found.agents.this_machine, found.kubernetes.state_metrics) == ("on", "off")


def test_paths_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    file = write(tmp_path, "server: {token_file: secret}\nstorage: {data_dir: /srv/data}\nscrape:\n")
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")
    settings = load_settings(file, environ={})
    assert settings.server.read_token() == "s3cret"
    assert settings.storage.data_dir == Path("/srv/data")


def test_a_secret_of_the_environment_wins_however_the_file_gives_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"by file {name}\n", encoding="utf-8")
    by_file = write(tmp_path, "server: {token_file: one}\n")
    assert load_settings(by_file, environ={"TRILENS_SERVER_TOKEN": "told"}).server.read_token() == "told"
    told = write(tmp_path, "server: {token: written}\n")
    environ = {"TRILENS_SERVER_TOKEN_FILE": str(tmp_path / "two")}
    assert load_settings(told, environ=environ).server.read_token() == "by file two"
    with pytest.raises(ConfigError, match="give token or token_file, not both"):
        load_settings(by_file, environ={**environ, "TRILENS_SERVER_TOKEN": "told"})


def test_secrets_do_not_show_when_settings_are_written_out() -> None:
    environ = {"TRILENS_SERVER_TOKEN": "s3cret", "TRILENS_SOURCE_PASSWORD": "s3cret"}
    settings = load_settings(environ=environ)
    assert "s3cret" not in repr(settings) + settings.model_dump_json()
    assert settings.server.read_token() == "s3cret"


def test_an_endpoint_signs_in_as_it_was_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t1\n", encoding="utf-8")
    file = write(
        tmp_path, "source: {url: 'http://x', bearer_token_file: token, tenant: blue, headers: {X-A: b}}"
    )
    source = load_settings(file, environ={}).source
    assert source.request_headers() == {"X-A": "b", "Authorization": "Bearer t1", "X-Scope-OrgID": "blue"}
    (tmp_path / "token").write_text("t2\n", encoding="utf-8")
    assert source.request_headers()["Authorization"] == "Bearer t2"
    environ = {"TRILENS_SOURCE_USERNAME": "u", "TRILENS_SOURCE_PASSWORD": "p"}
    assert load_settings(environ=environ).source.request_headers() == {"Authorization": "Basic dTpw"}


def test_a_group_left_empty_in_the_file_takes_what_comes_from_elsewhere(tmp_path: Path) -> None:
    file = write(tmp_path, "storage:\nserver:\n")
    settings = load_settings(file, {"server.listen": "127.0.0.1:1"}, {"TRILENS_STORAGE_RETENTION": "3d"})
    assert (settings.server.listen, settings.storage.retention) == ("127.0.0.1:1", timedelta(days=3))


@pytest.mark.parametrize("secret", ["schl\u00fcssel", "two\nlines", "bell\x07"])
def test_what_no_header_can_carry_is_refused_without_showing_it(tmp_path: Path, secret: str) -> None:
    (tmp_path / "token").write_text(secret, encoding="utf-8")
    by_file = load_settings(
        environ={
            "TRILENS_SERVER_TOKEN_FILE": str(tmp_path / "token"),
            "TRILENS_SOURCE_BEARER_TOKEN_FILE": str(tmp_path / "token"),
        }
    )
    for read in (
        lambda: load_settings(environ={"TRILENS_SERVER_TOKEN": secret}),
        lambda: load_settings(environ={"TRILENS_SOURCE_BEARER_TOKEN": secret}),
        lambda: load_settings(overrides={"source.headers": {"X-A": secret}}, environ={}),
        by_file.server.read_token,
        by_file.source.request_headers,
        lambda: load_client_settings(environ={"TRILENS_TOKEN": secret}),
    ):
        with pytest.raises(ConfigError, match="only printable ASCII") as caught:
            read()
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("listen", "address", "loopback"),
    [
        ("127.0.0.1:9333", ("127.0.0.1", 9333), True),
        ("[::1]:1", ("::1", 1), True),
        ("localhost:0", ("localhost", 0), True),
        (":9333", ("0.0.0.0", 9333), False),
        ("0.0.0.0:9333", ("0.0.0.0", 9333), False),
        ("gpu-1:9333", ("gpu-1", 9333), False),
    ],
)
def test_which_addresses_are_loopback(listen: str, address: tuple[str, int], loopback: bool) -> None:
    server = load_settings(overrides={"server.listen": listen}, environ={}).server
    assert (server.address, server.on_loopback) == (address, loopback)


def test_client_settings() -> None:
    assert load_client_settings(environ={}).server == "http://127.0.0.1:9333"
    environ = {"TRILENS_SERVER": "https://t.example/", "TRILENS_TOKEN": "x"}
    assert load_client_settings(environ=environ).server == "https://t.example"
    assert load_client_settings("http://other", environ).server == "http://other"
    assert load_client_settings(environ=environ).token == "x"
    with pytest.raises(ConfigError):
        load_client_settings("localhost:9333", {})
