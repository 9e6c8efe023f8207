"""`trilens rules`: check, list, export."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from memory_api import Api, running
from rules_at_work import groups
from trilens.alert.evaluation import new_states
from trilens.cli.main import app
from trilens.rules import rule_files
from trilens_process import trilens

FINE = "groups:\n- name: a\n  rules:\n  - {record: x, expr: up}\n  - {alert: y, expr: up}\n"


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["rules", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_file_that_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "fine.yml"
    file.write_text(FINE)
    status, out, err = run("check", str(file))
    assert (status, out) == (0, f"{file}: fine, 2 rules\n")
    assert "does not evaluate alerting rules yet (1 here)" in err


def test_rules_of_one_name_are_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "twice.yml"
    file.write_text(FINE.replace("{alert: y, expr: up}", "{record: x, expr: down}"))
    status, _, err = run("check", str(file))
    assert status == 0
    assert "2 rules are named 'x' with the same labels" in err


def test_a_wrong_file_is_said_beside_one_that_is_fine(tmp_path: Path) -> None:
    fine, wrong = tmp_path / "fine.yml", tmp_path / "wrong.yml"
    fine.write_text(FINE)
    wrong.write_text(FINE.replace("expr: up}", "expr: 'sum('}", 1))
    status, out, err = run("check", str(wrong), str(fine))
    assert status == 2
    assert out == f"{fine}: fine, 2 rules\n"
    assert f"trilens: {wrong}:4:28: groups[0].rules[0].expr: unclosed left parenthesis" in err
    status, out, _ = run("check", "--json", str(wrong), str(tmp_path / "none.yml"))
    first, second = json.loads(out)
    assert status == 2
    assert (first["ok"], first["where"]) == (False, f"{wrong}:4:28")
    assert "No such file" in second["error"]


def test_the_shipped_files_are_written_for_others(tmp_path: Path) -> None:
    status, out, _ = run("export", str(tmp_path / "deep" / "folder"))
    written = [Path(line) for line in out.splitlines()]
    assert status == 0
    assert [file.name for file in written] == [entry.name for entry in rule_files()]
    assert run("check", *map(str, written))[0] == 0
    (tmp_path / "file").touch()
    done = trilens("rules", "export", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cannot write" in done.stderr


def test_the_rules_of_a_server() -> None:
    api = Api()
    api.rules = new_states(groups(FINE))
    api.rules[0].rules[0].health = "err"
    api.rules[0].rules[0].last_error = "too large"
    with running(api.build()) as url:
        status, out, _ = run("list", "--server", url)
        assert status == 0
        assert [line.split() for line in out.splitlines()] == [
            ["group", "type", "rule", "health", "took", "error"],
            ["a", "recording", "x", "err", "0.0", "ms", "too", "large"],
            ["a", "alerting", "y", "unknown", "0.0", "ms"],
        ]
        (only,) = json.loads(run("list", "--failing", "--json", "--server", url)[1])
        assert (only["name"], only["file"], only["interval"]) == ("x", "rules.yml", 60)
        assert json.loads(run("list", "y", "--json", "--server", url)[1])[0]["name"] == "y"
        assert run("list", "nobody", "--server", url)[2] == "no rules\n"
