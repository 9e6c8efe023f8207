"""docs/security.md: its settings are read, its commands run, its table of rights is the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from trilens.cli.main import app
from trilens.model.access_token import digest_of, read_token
from trilens.model.identity import Right
from trilens.settings.load import load_settings
from trilens.settings.token_file import read_token_file

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
FENCED = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
INLINE = re.findall(r"^    ((?:server|access): \{.*\})$", PAGE, re.MULTILINE)
COMMANDS = re.findall(r"^    (trilens .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("text", [one for one in FENCED if "access:" in one] + INLINE)
def test_every_example_of_settings_is_read(text: str, tmp_path: Path) -> None:
    file = tmp_path / "trilens.yaml"
    file.write_text(text)
    settings = load_settings(file, environ={})
    assert settings.server.listen or settings.access.has_door


def test_the_example_of_a_tokens_file_is_read(tmp_path: Path) -> None:
    (example,) = [one for one in FENCED if "sha256:" in one]
    file = tmp_path / "tokens.yaml"
    file.write_text(example)
    (token,) = read_token_file(file)
    assert (token.grant.rights, token.grant.clusters) == ({Right.INTAKE}, {"prod"})


def test_every_command_has_these_options() -> None:
    assert len(COMMANDS) >= 7
    for command in COMMANDS:
        words = shlex.split(command.partition(">>")[0])[1:]
        told = CliRunner().invoke(app, [*words, "--help"])
        assert told.exit_code == 0, (command, told.output)


def test_the_offline_command_makes_a_file_that_is_read(tmp_path: Path) -> None:
    (command,) = [one for one in COMMANDS if "--offline" in one]
    other = CliRunner().invoke(app, shlex.split(command.partition(">>")[0])[1:])
    made = CliRunner().invoke(app, shlex.split(command.partition(">>")[0])[1:])
    file = tmp_path / "tokens.yaml"
    file.write_text("tokens:\n")  # as the line before it makes it
    assert read_token_file(file) == []
    file.write_text(f"tokens:\n{other.stdout}{made.stdout}")
    _, token = read_token_file(file)
    secret = read_token(made.stderr.rpartition(" ")[2].strip())
    assert secret is not None
    assert token.fits(secret.secret)
    hashed = CliRunner().invoke(app, ["token", "hash"], input=made.stderr.rpartition(" ")[2])
    (entry,) = yaml.safe_load(made.stdout)
    assert hashed.stdout.strip() == digest_of(secret.secret) == entry["sha256"]


def test_the_table_of_rights_has_all_of_them() -> None:
    assert re.findall(r"^\| `(\w+)` \| .* \| .* \|$", PAGE, re.MULTILINE) == [right.value for right in Right]


def test_the_figures_of_the_limits_are_the_defaults() -> None:
    settings = load_settings(environ={})
    access = settings.access
    assert f"(`server.max_connections`, {settings.server.max_connections})" in PAGE
    for name in ("requests_per_s", "intake_requests_per_s", "failures_per_s"):
        assert f"| `access.{name}` | {getattr(access, name):g} |" in PAGE
