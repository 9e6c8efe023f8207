"""From one monitor to the scrape jobs that it asks for, in the words of a Prometheus configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from trilens.collect.monitors.keys import Holder
from trilens.collect.monitors.relabelling import own_steps, pod_steps, service_steps
from trilens.collect.monitors.selector import LabelSelector
from trilens.model.errors import ConfigError
from trilens.model.kubernetes import GroupKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.collect.cluster_scope import ClusterScope
    from trilens.model.kubernetes import KubeObject

GROUP: Final = "monitoring.coreos.com"
SERVICE_MONITOR: Final = GroupKind(GROUP, "ServiceMonitor")
POD_MONITOR: Final = GroupKind(GROUP, "PodMonitor")

JobDocument = dict[str, Any]
"""An entry of `scrape_configs`."""

Part = dict[str, Any]

# What is said in the same way here and there; None is left out, as is what is empty.
_OF_ENDPOINT: Final = {
    "interval": "scrape_interval",
    "scrapeTimeout": "scrape_timeout",
    "path": "metrics_path",
    "params": "params",
    "proxyUrl": "proxy_url",
    "honorLabels": "honor_labels",
    "honorTimestamps": "honor_timestamps",
    "trackTimestampsStaleness": "track_timestamps_staleness",
    "followRedirects": "follow_redirects",
    "enableHttp2": "enable_http2",
}
_OF_SPEC: Final = {
    "sampleLimit": "sample_limit",
    "targetLimit": "target_limit",
    "labelLimit": "label_limit",
    "labelNameLengthLimit": "label_name_length_limit",
    "labelValueLengthLimit": "label_value_length_limit",
    "keepDroppedTargets": "keep_dropped_targets",
    "bodySizeLimit": "body_size_limit",
    "scrapeProtocols": "scrape_protocols",
    "fallbackScrapeProtocol": "fallback_scrape_protocol",
}
_OF_TLS: Final = {
    "insecureSkipVerify": "insecure_skip_verify",
    "serverName": "server_name",
    "minVersion": "min_version",
    "maxVersion": "max_version",
}
_TLS_FILES: Final = {"caFile": "ca_file", "certFile": "cert_file", "keyFile": "key_file"}
# Left out, they would change how, or as whom, a target is asked: so the monitor is not used at all.
_UNSUPPORTED: Final = ("oauth2", "noProxy", "proxyFromEnvironment", "proxyConnectHeader")


class KeySource(Protocol):
    def text(self, holder: Holder, key: str) -> str:
        """Raises ConfigError where it cannot be had."""


def jobs_of(monitor: KubeObject, scope: ClusterScope, keys: KeySource) -> list[JobDocument]:
    """One for each of its endpoints. Raises ConfigError for what Trilens cannot do as it is asked to."""
    spec = monitor.body.get("spec") or {}
    if spec.get("scrapeClass"):
        raise ConfigError(
            f"the scrape class {spec['scrapeClass']!r} is the operator's own, and not known here"
        )
    is_pods = monitor.group_kind == POD_MONITOR
    endpoints = spec.get("podMetricsEndpoints" if is_pods else "endpoints") or ()
    return [_job(monitor, spec, i, endpoint, scope, keys) for i, endpoint in enumerate(endpoints)]


def _job(
    monitor: KubeObject, spec: Part, number: int, endpoint: Part, scope: ClusterScope, keys: KeySource
) -> JobDocument:
    for name in _UNSUPPORTED:
        if endpoint.get(name):
            raise ConfigError(f"{name} is not supported yet")
    is_pods = monitor.group_kind == POD_MONITOR
    kind, name = ("podMonitor" if is_pods else "serviceMonitor"), f"{monitor.namespace}/{monitor.name}"
    steps = pod_steps(scope, name, spec, endpoint) if is_pods else service_steps(scope, spec, endpoint)
    job: JobDocument = {
        "job_name": f"{scope.prefix}{kind}/{name}/{number}",
        "kubernetes_sd_configs": [_discovery(monitor, spec, scope)],
        "relabel_configs": steps,
        "metric_relabel_configs": own_steps(endpoint.get("metricRelabelings")),
        **_renamed(endpoint, _OF_ENDPOINT),
        **_renamed(spec, _OF_SPEC),
        **_signing_in(endpoint, _Access(monitor.namespace, keys, scope.files)),
    }
    if endpoint.get("scheme"):
        job["scheme"] = endpoint["scheme"].lower()
    return job


def _discovery(monitor: KubeObject, spec: Part, scope: ClusterScope) -> Part:
    more: Part = {}
    if (spec.get("attachMetadata") or {}).get("node"):
        more["attach_metadata"] = {"node": True}
    namespaces = _namespaces(monitor, spec.get("namespaceSelector") or {}, scope.namespaces)
    if monitor.group_kind == SERVICE_MONITOR:
        # Slices, since an Endpoints object ends after a thousand: fewer than a large cluster has nodes.
        return scope.section("endpointslice", namespaces, **more)
    # Only pods that the relabelling keeps are asked for: a cluster has many more of them.
    query = LabelSelector.read(spec.get("selector") or {}).query()
    if query:
        more["selectors"] = [{"role": "pod", "label": query}]
    return scope.section("pod", namespaces, **more)


def _namespaces(monitor: KubeObject, selector: Part, allowed: Sequence[str]) -> list[str]:
    """Those to look at, all of them where there are none: its own unless it says more."""
    if selector.get("any"):
        return list(allowed)
    wanted = selector.get("matchNames") or [monitor.namespace]
    found = [name for name in wanted if not allowed or name in allowed]
    if not found:
        raise ConfigError(f"it looks at {', '.join(wanted)} only, which the cluster's `namespaces` leave out")
    return found


class _Access(NamedTuple):
    """What a monitor may refer to: keys in its own namespace, and files where that is allowed."""

    namespace: str
    keys: KeySource
    files: bool

    def secret(self, reference: Part) -> str:
        return self._text("Secret", reference)

    def certificate(self, source: Part) -> str:
        if source.get("configMap"):
            return self._text("ConfigMap", source["configMap"])
        return self.secret(source["secret"])

    def file(self, name: str, path: str) -> str:
        """It is read with our rights and sent where the monitor's author wants: a way to any token."""
        if not self.files:
            raise ConfigError(
                f"{name} names a file, {path}, and files of this machine are not for monitors; "
                "set monitor_files for the cluster if all who write monitors are trusted"
            )
        return path

    def _text(self, kind: Any, reference: Part) -> str:
        holder = Holder(kind, self.namespace, reference.get("name") or "")
        return self.keys.text(holder, reference.get("key") or "")


def _signing_in(endpoint: Part, access: _Access) -> Part:
    found: Part = {}
    if endpoint.get("bearerTokenFile"):
        found["bearer_token_file"] = access.file("bearerTokenFile", endpoint["bearerTokenFile"])
    if (endpoint.get("bearerTokenSecret") or {}).get("name"):
        found["bearer_token"] = access.secret(endpoint["bearerTokenSecret"])
    if endpoint.get("basicAuth"):
        parts = {name: endpoint["basicAuth"].get(name) for name in ("username", "password")}
        found["basic_auth"] = {name: access.secret(part) for name, part in parts.items() if part}
    if endpoint.get("authorization"):
        authorization = endpoint["authorization"]
        found["authorization"] = {"type": (authorization.get("type") or "Bearer").strip()}
        if authorization.get("credentials"):
            found["authorization"]["credentials"] = access.secret(authorization["credentials"])
    if endpoint.get("tlsConfig"):
        found["tls_config"] = _tls(endpoint["tlsConfig"], access)
    return found


def _tls(written: Part, access: _Access) -> Part:
    found = _renamed(written, _OF_TLS)
    for name, key in _TLS_FILES.items():
        if written.get(name):
            found[key] = access.file(name, written[name])
    for name in ("ca", "cert"):
        if written.get(name):
            found[name] = access.certificate(written[name])
    if written.get("keySecret"):
        found["key"] = access.secret(written["keySecret"])
    return found


def _renamed(written: Part, names: Mapping[str, str]) -> Part:
    return {ours: written[theirs] for theirs, ours in names.items() if written.get(theirs) not in (None, "")}
