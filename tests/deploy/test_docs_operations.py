"""What docs have to copy for the chart: it takes that, and the server reads what comes of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from chart import ALONE, LARGE, VALUES, Json, pod_of, settings_of, template

from command_here import trilens_here
from servers import missing
from trilens import __version__
from trilens.collect.config import load_scrape_configs
from trilens.collect.target import Target, build_target
from trilens.settings.load import load_settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
COMMANDS = re.findall(r"^    (.*(?:\\\n.*)*)", PAGE, re.MULTILINE)


def test_one_file_has_all_that_was_set() -> None:
    """It is made before anything is installed; every install and upgrade is with it and nothing besides."""
    (made,) = [
        n for n, one in enumerate(COMMANDS) if one.endswith(" my-values.yaml") and one.startswith("cp ")
    ]
    used = [n for n, one in enumerate(COMMANDS) if re.match(r"helm (install|upgrade) ", one)]
    assert made < min(used)
    assert len(used) > 4
    wanted = r"helm (install|upgrade) trilens deploy/helm/trilens --namespace trilens --values my-values.yaml"
    assert [COMMANDS[n] for n in used if not re.fullmatch(wanted, COMMANDS[n])] == []


def test_each_install_and_upgrade_of_the_steps_is_waited_for() -> None:
    steps = PAGE.partition("## Values")[0]
    told = re.findall(r"^    (.*)", steps, re.MULTILINE)
    begun = [n for n, one in enumerate(told) if re.match(r"helm (install|upgrade) ", one)]
    wait = "kubectl -n trilens rollout status statefulset/trilens "
    assert [told[n + 1].startswith(wait) for n in begun[:3]] == [True] * 3


def test_that_file_with_what_is_first_put_into_it(tmp_path: Path) -> None:
    (copied,) = re.findall(r"^    cp (\S+) my-values.yaml$", PAGE, re.MULTILINE)
    (shown,) = [one for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if one.startswith("image:")]
    values, first = yaml.safe_load((ROOT / copied).read_text()), yaml.safe_load(shown)
    for group, given in first.items():
        values[group] = {**values.get(group, {}), **given}
    file = tmp_path / "my-values.yaml"
    file.write_text(yaml.safe_dump(values))
    objects = template(values=file)
    image = pod_of(objects, "StatefulSet")["containers"][0]["image"]
    assert f"podman push {image}" in COMMANDS
    assert [*settings_of(objects)["kubernetes"]["clusters"]] == ["production"]
    assert any(f"--cluster {first['cluster']['name']}" in one for one in COMMANDS)


def _examples_of_values() -> list[str]:
    known = yaml.safe_load(VALUES.read_text()).keys()
    return [
        text
        for page in sorted((ROOT / "docs").glob("*.md"))
        for text in re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        if isinstance(tree := next(yaml.safe_load_all(text)), dict) and tree.keys() <= known
    ]


@pytest.mark.parametrize("shown", _examples_of_values())
def test_every_example_of_values_is_taken(shown: str, tmp_path: Path) -> None:
    values, read = tmp_path / "my-values.yaml", tmp_path / "trilens.yaml"
    values.write_text(shown)
    objects = template(values=values)
    read.write_text(yaml.safe_dump(settings_of(objects)))
    agents = load_settings(read, environ={}).agents.scrape_config
    assert agents is not None


def test_agents_elsewhere_with_a_certificate_are_asked_by_https(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    (shown,) = [one for one in _examples_of_values() if "server_name" in one]
    scrape = yaml.safe_load(shown)["config"]["agents"]["scrape_config"]
    (labels,) = re.findall(r"`labels: (\{cluster: west, .*?\})`", page)
    scrape["static_configs"] = [{"targets": ["w:9334"], "labels": yaml.safe_load(labels)}]
    (job,) = load_scrape_configs({"scrape_configs": [{"job_name": "agents", **scrape}]}, tmp_path)
    target = build_target({**job.static_configs[0].labels, "__address__": "w:9334"}, job)
    assert isinstance(target, Target)
    assert target.url == "https://w:9334/metrics"


def test_the_images_are_of_this_version() -> None:
    tags = re.findall(r"registry\.example/ml/trilens-(?:server|agent):(\S+)", PAGE)
    assert len(tags) == 5
    assert {*tags} == {__version__}


@pytest.mark.parametrize("values", [ALONE, LARGE], ids=lambda file: file.stem)
def test_what_is_checked_is_what_a_pod_starts_with(values: Path, tmp_path: Path) -> None:
    """By the lines of the page, in a shell, with the helm that is there."""
    (rendering,) = [one for one in COMMANDS if one.startswith("helm template ")]
    (checking,) = [one for one in COMMANDS if one.startswith("trilens config check ")]
    file = tmp_path / "my-values.yaml"
    login = yaml.safe_load(_that_lets_people_in())
    file.write_text(yaml.safe_dump(_together(yaml.safe_load(values.read_text()), login)))
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    made = subprocess.run(
        rendering, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    if "helm: not found" in made.stderr:
        missing("helm is not installed: run tools/helm .venv")
    rendered = tmp_path / "rendered.yaml"
    assert yaml.safe_load(rendered.read_text()) == settings_of(template(values=file, namespace="trilens"))
    said = trilens_here(*checking.split()[1:], cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    for secret in ("secret/server-token", "login/client-secret", "login/session-key"):
        assert f"/etc/trilens/{secret}: No such file" in said.stderr


def _together(values: Json, more: Json) -> Json:
    """As a person puts one into the other."""
    every = dict(values)
    for key, value in more.items():
        if isinstance(value, dict):
            every[key] = _together(every.get(key, {}), value)
        else:
            every[key] = every.get(key, []) + value if isinstance(value, list) else value
    return every


def _that_lets_people_in() -> str:
    (shown,) = [one for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "secretMounts" in one]
    return str(shown)


def test_who_is_believed_to_say_where_others_are_is_no_network_of_pods() -> None:
    """Without a secret each pod of it could say to be anywhere."""
    let_in = yaml.safe_load(_that_lets_people_in())
    assert not any("/" in one for one in let_in["server"]["ingress"]["from"])
    for page in sorted((ROOT / "docs").glob("*.md")):
        for shown in re.findall(r"^.*trusted: \[10\.244\..*$", page.read_text("utf-8"), re.MULTILINE):
            assert "secret_file:" in shown, page


def test_the_values_that_let_people_in(tmp_path: Path) -> None:
    values = tmp_path / "my-values.yaml"
    let_in = yaml.safe_load(_that_lets_people_in())
    values.write_text(yaml.safe_dump(_together(yaml.safe_load(ALONE.read_text()), let_in)))
    objects = template(values=values)
    (mount,) = [
        one["mountPath"]
        for one in pod_of(objects, "StatefulSet")["containers"][0]["volumeMounts"]
        if one["mountPath"].endswith("/login")
    ]
    read = tmp_path / "trilens.yaml"
    read.write_text(yaml.safe_dump(settings_of(objects)))
    settings = load_settings(read, environ={})
    oidc = settings.access.oidc
    assert oidc is not None
    assert settings.server.external_url == "https://trilens.example"
    assert settings.access.proxy is not None, "who asks by the ingress is told from others"
    assert not settings.access.proxy.names_people
    for file in (oidc.client_secret_file, settings.access.session_key_file):
        assert str(file).startswith(f"{mount}/")
        assert f"--from-literal={Path(str(file)).name}=" in PAGE
