"""Secrets do not leave with the settings, and an empty one does not open the door."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from trilens.model.errors import ConfigError
from trilens.model.masking import masked, without_passwords
from trilens.settings.group import read_secret


def test_secrets_are_masked_by_name_and_in_urls() -> None:
    tree = {
        "storage": {"url": "http://user:hunter2@clickhouse:8123/db"},
        "scrape_configs": [{"basic_auth": {"username": "u", "password": "hunter2"}, "job_name": "x"}],
        "authorization": {"credentials": "hunter2"},
        "tls_config": {"ca": "-----", "key": "hunter2"},
        "labels": {"key": "value"},
    }
    shown = masked(tree)
    assert "hunter2" not in str(shown)
    assert shown["scrape_configs"][0]["job_name"] == "x"
    assert (shown["tls_config"]["ca"], shown["labels"]["key"]) == ("-----", "value")
    assert shown["storage"]["url"] == "http://<secret>@clickhouse:8123/db"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "GET http://user:hunter2@gpu-1:9400/metrics: refused",
            "GET http://<secret>@gpu-1:9400/metrics: refused",
        ),
        ("http://user:p@ss@gpu-1/", "http://<secret>@gpu-1/"),
        ("from https://a:b@c/d to http://e:f@g", "from https://<secret>@c/d to http://<secret>@g"),
        ("http://gpu-1/probe?mail=a@b", "http://gpu-1/probe?mail=a@b"),
        ("http://gpu-1 says a@b", "http://gpu-1 says a@b"),
        (
            "http://p/?t=http%3A%2F%2Fu%3Ahunter2%40h%2Fx&m=a%40b",
            "http://p/?t=http%3A%2F%2F<secret>%40h%2Fx&m=a%40b",
        ),
        ("http://p/?t=http%3A%2F%2Fh%2Fa%40b&u=c%40d", "http://p/?t=http%3A%2F%2Fh%2Fa%40b&u=c%40d"),
    ],
)
def test_only_the_user_of_a_url_is_taken_out_of_a_text(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_token_is_refused(empty: str) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        read_secret(SecretStr(empty), None, "the server token")
