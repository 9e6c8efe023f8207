"""Secrets do not leave with the settings, and an empty one does not open the door."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from trilens.model.errors import ConfigError
from trilens.serve.masking import masked
from trilens.settings.group import read_secret


def test_secrets_are_masked_by_name_and_in_urls() -> None:
    tree = {
        "storage": {"url": "http://user:hunter2@clickhouse:8123/db"},
        "scrape_configs": [{"basic_auth": {"username": "u", "password": "hunter2"}, "job_name": "x"}],
        "authorization": {"credentials": "hunter2"},
    }
    shown = masked(tree)
    assert "hunter2" not in str(shown)
    assert shown["scrape_configs"][0]["job_name"] == "x"
    assert shown["storage"]["url"] == "http://<secret>@clickhouse:8123/db"


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_token_is_refused(empty: str) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        read_secret(SecretStr(empty), None, "the server token")
