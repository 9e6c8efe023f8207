"""The Helm chart, rendered by the real helm."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from servers import missing

Json = dict[str, Any]

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "trilens"
VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"
BESIDE = CHART / "values-beside-prometheus.yaml"
ALONE = CHART / "values-alone.yaml"
LARGE = CHART / "values-large.yaml"
CASES = (VALUES, BESIDE, ALONE, LARGE)
RELEASE = "trilens"
HOME = "observability"  # the namespace, where none is named


def helm(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        missing("helm is not installed: run tools/helm .venv")
    assert program is not None
    answer = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert not check or answer.returncode == 0, answer.stderr
    return answer


@functools.cache
def template(*settings: str, values: Path = VALUES, namespace: str = HOME) -> tuple[Json, ...]:
    """All objects; `settings` as after --set."""
    flags = [word for one in settings for word in ("--set", one)]
    text = helm("template", RELEASE, CHART, "--namespace", namespace, "--values", values, *flags).stdout
    return tuple(document for document in yaml.safe_load_all(text) if document)


def notes(folder: Path, *settings: str) -> str:
    """What helm tells after an install. It renders that for a cluster alone: here as an object of a copy."""
    chart = shutil.copytree(CHART, folder / "trilens")
    text = chart / "templates" / "NOTES.txt"
    (chart / "templates" / "_notes.tpl").write_text(
        f'{{{{ define "notes" }}}}{text.read_text()}{{{{ end }}}}'
    )
    text.unlink()
    (chart / "templates" / "notes.yaml").write_text('notes: {{ include "notes" . | toJson }}')
    flags = [word for one in settings for word in ("--set", one)]
    said = helm("template", RELEASE, chart, *flags, "--show-only", "templates/notes.yaml").stdout
    told: str = yaml.safe_load(said)["notes"]
    return told


def refusal(*settings: str) -> str:
    """What helm says of values that it does not take."""
    flags = [word for one in settings for word in ("--set-json" if one.endswith("}") else "--set", one)]
    answer = helm("template", RELEASE, CHART, *flags, check=False)
    assert answer.returncode != 0, f"{settings} are taken"
    return answer.stderr


def of_kind(objects: tuple[Json, ...], kind: str) -> list[Json]:
    return [one for one in objects if one["kind"] == kind]


def one_of(objects: tuple[Json, ...], kind: str, name: str = RELEASE) -> Json:
    return next(one for one in of_kind(objects, kind) if one["metadata"]["name"] == name)


def pod_of(objects: tuple[Json, ...], kind: str) -> Json:
    """The spec of the pods of the StatefulSet or the DaemonSet."""
    spec: Json = of_kind(objects, kind)[0]["spec"]["template"]["spec"]
    return spec


def settings_of(objects: tuple[Json, ...], name: str = RELEASE) -> Json:
    """trilens.yaml of the server, or of an agent."""
    tree: Json = yaml.safe_load(one_of(objects, "ConfigMap", name)["data"]["trilens.yaml"])
    return tree
