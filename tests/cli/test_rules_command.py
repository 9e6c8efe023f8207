"""`trilens rules`: check, list, export; `test` is tested with what it runs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from memory_api import Api, running
from rules_at_work import groups
from servers import require_server
from trilens.alert.active import ActiveAlerts
from trilens.alert.blindness import blind_rules
from trilens.alert.evaluation import new_states
from trilens.alert.rule import AlertingRule
from trilens.alert.templates.expand import External
from trilens.cli.main import app
from trilens.model.errors import ConfigError
from trilens.model.labels import LabelFrame, Symbols
from trilens.rules import files_for_others, rule_files
from trilens.rules.thresholds import thresholds
from trilens_process import trilens

FINE = "groups:\n- name: a\n  rules:\n  - {record: x, expr: up}\n  - {alert: y, expr: up}\n"


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["rules", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_file_that_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "fine.yml"
    file.write_text(FINE)
    assert run("check", str(file)) == (0, f"{file}: fine, 2 rules\n", "")


def test_rules_of_one_name_are_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "twice.yml"
    file.write_text(FINE.replace("{alert: y, expr: up}", "{record: x, expr: down}"))
    status, _, err = run("check", str(file))
    assert status == 0
    assert "2 rules are named 'x' with the same labels" in err


def test_each_group_that_is_wrong_is_said(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yml"
    file.write_text("groups:\n- {name: a, rules: [{alert: A}]}\n- {name: b}\n- {name: c, limit: -1}\n")
    status, _, err = run("check", str(file))
    assert (status, [line.split(": ")[1] for line in err.splitlines()]) == (
        2,
        [f"{file}:2:21", f"{file}:4:13"],
    )
    (report,) = json.loads(run("check", "--json", str(file))[1])
    assert (report["where"], len(report["more"])) == (f"{file}:2:21", 1)


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
    assert [file.name for file in written] == [entry.name for entry in (*rule_files(), *files_for_others())]
    assert run("check", *map(str, written))[0] == 0
    again = run("export", str(tmp_path / "deep" / "folder"), "--json")[1]
    assert [one["file"] for one in json.loads(again)] == out.splitlines()
    (tmp_path / "file").touch()
    done = trilens("rules", "export", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cannot write" in done.stderr


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """PrometheusRule objects, one a file."""
    folder = tmp_path_factory.mktemp("objects")
    place = ("--namespace", "monitoring", "--label", "release=kube-prometheus", "--label", "team/of=ml")
    other = ("--set", "gpu_temperature_celsius=85")
    status, out, err = run("export", str(folder), "--format", "prometheusrule", *other, *place)
    assert (status, err) == (0, "")
    return [Path(line) for line in out.splitlines()]


def test_objects_of_the_prometheus_operator(objects: list[Path], tmp_path: Path) -> None:
    """As its CRD wants them (monitoring.coreos.com/v1): a webhook refuses the rest."""
    shipped = (*rule_files(), *files_for_others())
    assert [file.name for file in objects] == [f"trilens-{entry.name}" for entry in shipped]
    duration = re.compile(r"(\d+(ms|[smhdwy]))+")
    bare = []
    for file in objects:
        tree = yaml.safe_load(file.read_text())
        assert (tree["apiVersion"], tree["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
        assert tree["metadata"]["name"] == file.stem
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", file.stem)
        assert tree["metadata"]["namespace"] == "monitoring"
        labels = tree["metadata"]["labels"]
        assert labels.items() >= {"release": "kube-prometheus", "team/of": "ml"}.items()
        assert set(tree) == {"apiVersion", "kind", "metadata", "spec"}
        assert len(file.read_bytes()) < 1_000_000  # the operator makes a ConfigMap of it
        groups = tree["spec"]["groups"]
        assert len({group["name"] for group in groups}) == len(groups)
        for group in groups:
            assert set(group) <= {"name", "interval", "limit", "rules"}
            assert duration.fullmatch(group["interval"])
            for rule in group["rules"]:
                assert set(rule) <= {"record", "alert", "expr", "for", "labels", "annotations"}
                texts = {**rule.get("labels", {}), **rule.get("annotations", {})}
                assert all(isinstance(text, str) for text in texts.values())
                assert duration.fullmatch(rule.get("for", "1m"))
        bare.append(tmp_path / file.name)
        bare[-1].write_text(yaml.safe_dump(tree["spec"]))
    done = subprocess.run(
        [require_server("promtool"), "check", "rules", *bare], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_threshold_is_another_in_what_is_written(objects: list[Path]) -> None:
    (file,) = [file for file in objects if file.name == "trilens-thresholds.yml"]
    (group,) = yaml.safe_load(file.read_text())["spec"]["groups"]
    values = {rule["labels"]["of"]: float(rule["expr"][7:-1]) for rule in group["rules"]}
    assert values == {**thresholds(), "gpu_temperature_celsius": 85}


def test_vmalert_takes_what_is_written_for_it(tmp_path: Path) -> None:
    assert run("export", str(tmp_path), "--format", "vmalert")[0] == 0
    done = subprocess.run(
        [require_server("vmalert"), "-dryRun", f"-rule={tmp_path}/*.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "gpu_temp_celsius=85"], "there is no threshold 'gpu_temp_celsius'; do you mean"),
        (["--set", "gpu_temperature_celsius=warm"], "'warm' is not a number"),
        (["--set", "gpu_temperature_celsius"], "sets no threshold"),
        (["--set", "gpu_temperature_celsius=nan"], "cannot be nan"),
        (["--format", "nagios"], "there is no format 'nagios'"),
        (["--namespace", "a"], "are for --format prometheusrule"),
        (["--format", "prometheusrule", "--namespace", "A b"], "'A b' is not the name of a namespace"),
        (["--format", "prometheusrule", "--label", "x"], "'x' is not a label"),
    ],
    ids=["unknown", "no number", "no value", "nan", "format", "not for files", "namespace", "label"],
)
def test_what_cannot_be_exported_is_said_before_anything_is_written(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    folder = tmp_path / "folder"
    done = CliRunner().invoke(app, ["rules", "export", str(folder), *arguments])
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
    assert not folder.exists()


def test_the_rules_of_a_server() -> None:
    api = Api()
    api.rules = new_states(groups(FINE))
    api.rules[0].rules[0].health = "err"
    api.rules[0].rules[0].last_error = "too large"
    with running(api.build()) as url:
        status, out, _ = run("list", "--server", url)
        assert status == 0
        assert [line.split() for line in out.splitlines()] == [
            ["group", "type", "rule", "state", "health", "took", "error"],
            ["a", "recording", "x", "err", "0.0", "ms", "too", "large"],
            ["a", "alerting", "y", "inactive", "unknown", "0.0", "ms"],
        ]
        (only,) = json.loads(run("list", "--failing", "--json", "--server", url)[1])
        assert (only["name"], only["file"], only["interval"]) == ("x", "rules.yml", 60)
        assert json.loads(run("list", "y", "--json", "--server", url)[1])[0]["name"] == "y"
        assert run("list", "nobody", "--server", url)[2] == "no rule is named nobody\n"


def test_alerts_are_counted_and_blind_rules_say_what_they_need() -> None:
    text = "groups:\n- name: a\n  rules:\n" + "".join(
        f"  - {{alert: {name}, expr: '{expr}'}}\n"
        for name, expr in (
            ("Fires", "up > 0"),
            ("Blind", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0"),
            ("Idle", "up > 9"),
        )
    )
    found = groups(text)
    api = Api()
    api.rules = new_states(found)
    fires = api.rules[0].rules[0]
    assert isinstance(fires.rule, AlertingRule)
    fires.active = ActiveAlerts(fires.rule, found[0], External())
    fires.active.step(LabelFrame.of(Symbols(), [{"job": "a"}, {"job": "b"}]), np.ones(2), 1_700_000_000_000)
    missing = blind_rules(found, lambda name, _: name != "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")
    api.blind = {(one.group, one.rule): one for one in missing}
    with running(api.build()) as url:
        _, out, _ = run("list", "--server", url)
        assert [line.split()[2:5] for line in out.splitlines()[1:4]] == [
            ["Fires", "2", "firing"],
            ["Blind", "blind", "unknown"],
            ["Idle", "inactive", "unknown"],
        ]
        assert out.splitlines()[4:] == [
            "",
            "blind: Blind looks at what is nowhere: DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            "  do: add to the counters file of dcgm-exporter:",
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, double-bit errors since the driver was loaded",
        ]
        (only,) = json.loads(run("list", "--blind", "--json", "--server", url)[1])
        assert (only["name"], only["blind"]["missing"]) == ("Blind", ["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"])
