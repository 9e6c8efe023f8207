"""Jobs for what clusters agree on by habit: annotations that ask for scraping, exporters' usual labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.collect.discovery.base import ADDRESS
from trilens.collect.discovery.kubernetes.meta_labels import META, NAMESPACE

if TYPE_CHECKING:
    from trilens.collect.cluster_scope import ClusterScope

JobDocument = dict[str, Any]
Step = dict[str, Any]

_DROPPED_KEPT: Final = 100  # most pods of a cluster are not wanted, and to say so of a few is enough
_NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Exporter(NamedTuple):
    """By whichever of the two usual labels its pods have."""

    job: str
    apps: tuple[str, ...]  # values of the label `app`
    names: tuple[str, ...]  # values of the label `app.kubernetes.io/name`
    ports: str  # the usual names of its port, a regular expression
    port: int  # and its usual number
    about_others: bool = True  # its series speak of pods and namespaces that are not its own
    about_its_node: bool = True


# Not trilens-agent: it wants a token, which `agents.scrape_config` has.
EXPORTERS: Final = (
    Exporter("dcgm-exporter", ("nvidia-dcgm-exporter", "dcgm-exporter"), ("dcgm-exporter",), "metrics", 9400),
    Exporter(
        "node-exporter",
        ("node-exporter", "prometheus-node-exporter"),
        ("node-exporter", "prometheus-node-exporter"),
        "metrics|http-metrics|http",
        9100,
        about_others=False,
    ),
    Exporter(
        "kube-state-metrics",
        ("kube-state-metrics",),
        ("kube-state-metrics",),
        "http|http-metrics",
        8080,
        about_its_node=False,
    ),
)


def exporter_jobs(scope: ClusterScope) -> list[JobDocument]:
    """All ask for the same pods, so that one watch serves them."""
    apps = sorted({app for exporter in EXPORTERS for app in exporter.apps})
    names = sorted({name for exporter in EXPORTERS for name in exporter.names})
    queries = (f"app in ({','.join(apps)})", f"app.kubernetes.io/name in ({','.join(names)})")
    sections = [scope.section("pod", selectors=[{"role": "pod", "label": query}]) for query in queries]
    return [
        {
            **_job(scope, exporter.job, sections, _exporter_steps(exporter)),
            "honor_labels": exporter.about_others,
        }
        for exporter in EXPORTERS
    ]


def annotation_jobs(scope: ClusterScope) -> list[JobDocument]:
    """`prometheus.io/scrape: "true"` with port, path, scheme and param_*, on pods and on services."""
    pods = scope.section("pod", selectors=[{"role": "pod", "field": _NOT_OVER}])
    services = scope.section("endpointslice")
    by_ip = [f"{META}pod_annotation_prometheus_io_port", f"{META}pod_ip"]
    return [
        _job(
            scope,
            "kubernetes-pods",
            [pods],
            [
                *_asked_by("pod"),
                _replace(by_ip, r"(\d+);([^:]+)", "$2:$1", ADDRESS),
                _replace(by_ip, r"(\d+);(.*:.*)", "[$2]:$1", ADDRESS),
                _drop("pod_container_init", "true"),
                *_named(),
                _node(),
            ],
        ),
        _job(
            scope,
            "kubernetes-services",
            [services],
            [
                *_asked_by("service"),
                _replace(
                    [ADDRESS, f"{META}service_annotation_prometheus_io_port"],
                    r"(.+?)(?::\d+)?;(\d+)",
                    "$1:$2",
                    ADDRESS,
                ),
                _drop("pod_phase", "Failed|Succeeded"),
                {"source_labels": [META + "service_name"], "target_label": "service"},
                *_named(),
                _node(),
            ],
        ),
    ]


def _job(scope: ClusterScope, job: str, sections: list[JobDocument], steps: list[Step]) -> JobDocument:
    named: Step = {"target_label": "job", "replacement": job}
    return {
        "job_name": scope.prefix + job,
        "keep_dropped_targets": _DROPPED_KEPT,
        "kubernetes_sd_configs": sections,
        "relabel_configs": [*steps, named, scope.label()],
    }


def _exporter_steps(exporter: Exporter) -> list[Step]:
    labels = [META + "pod_label_app", META + "pod_label_app_kubernetes_io_name"]
    apps, names = "|".join(exporter.apps), "|".join(exporter.names)
    ports = [META + "pod_container_port_name", META + "pod_container_port_number"]
    steps = [
        {"action": "keep", "source_labels": labels, "regex": f"({apps});.*|.*;({names})"},
        _drop("pod_phase", "Failed|Succeeded"),
        _drop("pod_container_init", "true"),
        _drop("pod_container_port_name", "https.*"),  # behind a proxy that asks who is there
        {"action": "keep", "source_labels": ports, "regex": f"({exporter.ports});.*|.*;{exporter.port}"},
    ]
    # What is said of no pod or no node must not get those of the exporter: of a GPU that nobody uses, of a
    # Deployment.
    if not exporter.about_others:
        steps += _named()
    if exporter.about_its_node:
        steps.append(_node())
    return steps


def _asked_by(what: str) -> list[Step]:
    annotation = f"{META}{what}_annotation_prometheus_io_"
    return [
        {"action": "keep", "source_labels": [annotation + "scrape"], "regex": "true"},
        _replace([annotation + "scheme"], "(https?)", "$1", "__scheme__"),
        _replace([annotation + "path"], "(.+)", "$1", "__metrics_path__"),
        {"action": "labelmap", "regex": annotation + "param_(.+)", "replacement": "__param_$1"},
    ]


def _named() -> list[Step]:
    return [
        {"source_labels": [NAMESPACE], "target_label": "namespace"},
        {"source_labels": [META + "pod_name"], "target_label": "pod"},
    ]


def _node() -> Step:
    return {"source_labels": [META + "pod_node_name"], "target_label": "node"}


def _replace(source: list[str], regex: str, replacement: str, target: str) -> Step:
    return {"source_labels": source, "regex": regex, "replacement": replacement, "target_label": target}


def _drop(label: str, regex: str) -> Step:
    return {"action": "drop", "source_labels": [META + label], "regex": regex}
