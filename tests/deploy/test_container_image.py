"""The image recipe: its stages fit together, its commands are there, and the agent has all that it needs.

No container runtime can be had here, so the images themselves are not built.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from typing import TYPE_CHECKING

import pytest
from chart import CHART, pod_of, template
from container_image import CONTAINERFILE, image, stages

from long_form import IS_LONG
from trilens.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

ROOT = CHART.parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMANDS = {
    command.name or command.callback.__name__ for command in app.registered_commands if command.callback
}

# What `trilens agent` imports once it runs.
AGENT_IMPORTS = (
    "import h2, pynvml, trilens.cli.main, trilens.collect.node.agent, trilens.collect.node.endpoint, "
    "trilens.collect.node.fault_watch, trilens.collect.node.nvml, trilens.serve.logs, trilens.settings.load"
)


def test_every_stage_is_made_before_it_is_used() -> None:
    known: set[str] = {"${PYTHON}"}
    for name, stage in stages().items():
        assert stage.base in known, f"{name} is based on {stage.base}"
        said = " ".join(one.rest for one in stage.instructions)
        assert set(re.findall(r"(?:--from=|from=)([a-z-]+)", said)) <= known
        known.add(name)


@pytest.mark.parametrize(("target", "kind"), [("server", "StatefulSet"), ("agent", "DaemonSet")])
def test_images_are_for_the_pods_of_the_chart(target: str, kind: str) -> None:
    made = image(target)
    container = pod_of(template(), kind)["containers"][0]
    assert container["image"].startswith(f"trilens-{target}:")
    assert made.entrypoint[0] in PROJECT["scripts"]
    assert made.command[0] in COMMANDS
    assert container["args"][0] == made.command[0]
    assert made.user == "65532:65532"
    context = pod_of(template(), "StatefulSet")["securityContext"]
    assert made.user == f"{context['runAsUser']}:{context['runAsGroup']}"
    ports = [str(one["containerPort"]) for one in container["ports"]]
    assert stages()[target].all_of("EXPOSE") == ports


def test_steps_name_what_there_is() -> None:
    makes = re.findall(r"make ([a-z-]+)", " ".join(stages()["wheel"].all_of("RUN")))
    assert "wheel" in makes
    assert re.search(r"^wheel:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    extras = re.findall(r"trilens\[(\w+)\]", CONTAINERFILE.read_text())
    assert sorted(extras) == ["agent", "server"]
    assert set(extras) <= set(PROJECT["optional-dependencies"])


def test_what_a_checkout_makes_is_not_copied_into_it() -> None:
    """Or a web app of yesterday would be in the wheel."""
    left_out = (CONTAINERFILE.parent / "Containerfile.dockerignore").read_text().splitlines()
    assert {".venv", "src/trilens/serve/web/dist", "src/trilens/serve/rehearsal/night"} <= set(left_out)


def test_an_agent_imports_nothing_that_only_a_server_has() -> None:
    extras = PROJECT["optional-dependencies"]
    of_servers = {_distribution(one) for one in extras["server"]}
    of_agents = {_distribution(one) for one in (*extras["agent"], *PROJECT["dependencies"])}
    forbidden = [
        module
        for module, found in packages_distributions().items()
        if {_distribution(one) for one in found} & (of_servers - of_agents)
    ]
    assert {"prometheus_client", "chdb", "aiohttp"} <= set(forbidden)
    hidden = f"import sys; sys.modules.update(dict.fromkeys({forbidden!r}))"
    told = subprocess.run(
        [sys.executable, "-c", f"{hidden}; {AGENT_IMPORTS}"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr


@pytest.mark.hunt
@pytest.mark.skipif(not IS_LONG, reason="fetches packages: make test-long")
def test_the_agents_environment_runs_the_agent(tmp_path: Path) -> None:
    """By the step of the recipe, at other paths, with a wheel whose web app and night are empty."""
    source = tmp_path / "src"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "src" / "trilens", source / "src" / "trilens", ignore=shutil.ignore_patterns("dist", "night")
    )
    for made in ("web/dist/index.html", "rehearsal/night/night.json"):
        file = source / "src" / "trilens" / "serve" / made
        file.parent.mkdir(parents=True)
        file.touch()
    wheel = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*wheel, str(tmp_path / "dist"), "."], cwd=source, check=True)
    (step,) = stages()["agent-environment"].all_of("RUN")
    step = re.sub(r"^--mount=\S+\s*", "", step)
    step = step.replace("/opt/trilens", str(tmp_path / "opt")).replace("/dist", str(tmp_path / "dist"))
    subprocess.run(["sh", "-ec", step], check=True, capture_output=True)
    made = image("agent")
    environ = {"PATH": made.environ["PATH"].replace("/opt/trilens", str(tmp_path / "opt"))}
    command = shlex.join([*made.entrypoint, *made.command, "--help"])
    told = subprocess.run(["sh", "-c", command], env=environ, check=True, capture_output=True, text=True)
    assert "Run the agent of one node" in told.stdout
    assert not (tmp_path / "opt" / "bin" / "pip").exists()
    subprocess.run([tmp_path / "opt" / "bin" / "python", "-c", AGENT_IMPORTS], check=True)


def _distribution(requirement: str) -> str:
    """The name, as all spellings of it come to."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return name[0].lower().replace("_", "-")
