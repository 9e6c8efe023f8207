"""What the chart makes is what Kubernetes and its operators take, by types and checks made of their own code.

Newer than the API server of the other tests: policy/v1, and the operators' kinds as their makers have them.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from chart import pod_of, template
from chart_settings import RENDERINGS

from node_js import node, node_modules

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

_CHECKS = Path(__file__).with_name("models.mjs")
_PACKAGES = {
    "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
    "keda.sh": "@kubernetes-models/keda",
}


@pytest.fixture(scope="module")
def modules() -> Path:
    return node_modules("kubernetes-models")


def _module(object: Json) -> str:
    group, _, version = object["apiVersion"].rpartition("/")
    package = _PACKAGES.get(group, "kubernetes-models")
    return "/".join(part for part in (package, group, version, object["kind"]) if part)


def _typed(objects: Iterable[Json], folder: Path, modules: Path) -> str:
    """What the compiler says of them as literals of their types: it knows each key that there is."""
    lines = []
    for number, one in enumerate(objects):
        name = f"I{one['kind']}"
        lines.append(f'import type {{ {name} as T{number} }} from "{_module(one)}";')
        lines.append(f"export const o{number}: T{number} = {json.dumps(one)};")
    (folder / "objects.ts").write_text("\n".join(lines), encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(modules)
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--preserveSymlinks"]
    command = [node(), modules / "typescript" / "bin" / "tsc", *options, "objects.ts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def _checked(objects: Iterable[Json], modules: Path) -> str:
    told = json.dumps([{**one, "module": _module(one)} for one in objects])
    command = [node(), str(_CHECKS), str(modules)]
    done = subprocess.run(command, input=told, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def test_every_object_has_the_type_of_its_kind(modules: Path, tmp_path: Path) -> None:
    every = [one for render in RENDERINGS.values() for one in render()]
    assert {one["kind"] for one in every} >= {"ServiceMonitor", "ScaledObject", "PodDisruptionBudget"}
    assert _typed(every, tmp_path, modules) == ""


@pytest.mark.parametrize("case", RENDERINGS)
def test_every_object_passes_the_checks_of_its_kind(modules: Path, case: str) -> None:
    assert _checked(RENDERINGS[case](), modules) == ""


def test_what_the_docs_have_to_apply_for_a_restore(modules: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
    (shown,) = [one for one in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: Job" in one]
    objects = [*yaml.safe_load_all(shown)]
    assert [one["kind"] for one in objects] == ["PersistentVolumeClaim", "Job"]
    assert _typed(objects, tmp_path, modules) + _checked(objects, modules) == ""
    restore = objects[1]["spec"]["template"]["spec"]
    server = pod_of(template("server.persistence.existingClaim=trilens-restored"), "StatefulSet")
    (data,) = [one for one in server["volumes"] if one["name"] == "data"]
    assert data == restore["volumes"][0], "the server is given what the job has written"
    mounts = {one["name"]: one["mountPath"] for one in server["containers"][0]["volumeMounts"]}
    assert restore["containers"][0]["args"][-1] == mounts["data"]
    assert restore["securityContext"].items() <= server["securityContext"].items()


def test_what_is_wrong_is_found(modules: Path, tmp_path: Path) -> None:
    monitor = next(one for one in RENDERINGS["everything"]() if one["kind"] == "ServiceMonitor")
    endpoint = monitor["spec"]["endpoints"][0]
    unknown = {**monitor, "spec": {**monitor["spec"], "endpoints": [{**endpoint, "paht": "/metrics"}]}}
    assert "'\"paht\"' does not exist" in _typed([unknown], tmp_path, modules)
    late = {**monitor, "spec": {**monitor["spec"], "endpoints": [{**endpoint, "interval": "soon"}]}}
    assert "interval" in _checked([late], modules)
