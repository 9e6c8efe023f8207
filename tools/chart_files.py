"""What the Helm chart takes from the code: rules, what Trilens must be allowed, how GPU nodes are known.

    python -m tools.chart_files       (make chart)

A chart cannot run Trilens, so they lie in it as files; tests/deploy says that they are what this would write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from trilens.cli.rule_export import Format, Placed, exported
from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.rbac import Document, fix_manifests, manifests, why_manifests
from trilens.diagnose.cure.restarts import restartable
from trilens.diagnose.scheduling.nodes import GPU_LABELS
from trilens.serve.cases.kinds import ONLY_ASKED

FOLDER: Final = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "trilens" / "files"
_SOME: Final = "some-namespace"
_RBAC_HEAD: Final = """\
# Made by tools/chart_files.py of what `trilens kubernetes rbac` prints: for the whole cluster, or for some
# namespaces, what lies in none of them and what is inside of each.
"""
_LABELS_HEAD: Final = "# Made by tools/chart_files.py: any of these says that a node has GPUs.\n"


def files() -> dict[str, str]:
    """The text of each, by its path in the chart's folder `files`."""
    rules = {f"rules/{name}": text for name, text in exported(Format.PROMETHEUS, {}, Placed())}
    labels = _LABELS_HEAD + "".join(f"- {label}\n" for label in GPU_LABELS)
    return {**rules, "rbac.yaml": _RBAC_HEAD + _written(_permissions()), "gpu-labels.yaml": labels}


def write() -> None:
    wanted = files()
    for file in FOLDER.rglob("*"):
        if file.is_file() and str(file.relative_to(FOLDER)) not in wanted:
            file.unlink()
    for path, text in wanted.items():
        file = FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _permissions() -> dict[str, Any]:
    kinds = choose()
    workloads = [kind for kind in kinds if restartable(str(kind.group_kind))]
    return {
        "read": _parts(manifests(kinds), manifests(kinds, [_SOME])),
        "why": _parts(why_manifests(ONLY_ASKED), why_manifests(ONLY_ASKED, [_SOME])),
        "fix": _parts(fix_manifests(workloads), fix_manifests(workloads, [_SOME])),
        "scrape": _added("Service", "EndpointSlice.discovery.k8s.io"),
    }


def _parts(everywhere: list[Document], in_some: list[Document]) -> dict[str, Any]:
    """Namespaces are granted by their names, which the chart's template knows."""
    return {
        "everywhere": _rules(everywhere, "ClusterRole"),
        "outside": [rule for rule in _rules(in_some, "ClusterRole") if "resourceNames" not in rule],
        "inside": _rules(in_some, "Role"),
    }


def _added(*kinds: str) -> list[Document]:
    """What annotations and monitors of a cluster need besides."""
    without = {
        (rule["apiGroups"][0], one)
        for rule in _rules(manifests(choose()), "ClusterRole")
        for one in rule["resources"]
    }
    return [
        {**rule, "resources": more}
        for rule in _rules(manifests(choose(add=kinds)), "ClusterRole")
        if (more := [one for one in rule["resources"] if (rule["apiGroups"][0], one) not in without])
    ]


def _written(tree: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=110)
    return text


def _rules(documents: list[Document], kind: str) -> list[Document]:
    found: list[Document] = next(one["rules"] for one in documents if one["kind"] == kind)
    return found


if __name__ == "__main__":
    write()
