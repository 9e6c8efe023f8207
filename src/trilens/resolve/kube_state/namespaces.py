"""Namespaces, and what lies in them for all: quotas and volume claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.kube_state.quantity import quantity, to_thousandth, to_whole
from trilens.resolve.kube_state.sample import StateSample, created, one_of
from trilens.resolve.reading import section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import KubeObject

_CLASS_ONCE: Final = "volume.beta.kubernetes.io/storage-class"


def namespace_labels(namespace: KubeObject) -> dict[str, str]:
    return {"namespace": namespace.name}


def namespace_samples(namespace: KubeObject) -> Iterator[StateSample]:
    yield from created("kube_namespace_created", namespace)
    phase = text(section(namespace.body, "status"), "phase")
    yield from one_of("kube_namespace_status_phase", "phase", ("Active", "Terminating"), phase)


def quota_labels(quota: KubeObject) -> dict[str, str]:
    return {"namespace": quota.namespace, "resourcequota": quota.name}


def quota_samples(quota: KubeObject) -> Iterator[StateSample]:
    yield from created("kube_resourcequota_created", quota)
    for what in ("hard", "used"):
        for resource, written in section(quota.body, "status", what).items():
            amount = quantity(str(written))
            if amount is not None:
                labels = {"resource": resource, "type": what}
                yield StateSample("kube_resourcequota", to_thousandth(amount), labels)


def claim_labels(claim: KubeObject) -> dict[str, str]:
    return {"namespace": claim.namespace, "persistentvolumeclaim": claim.name}


def claim_samples(claim: KubeObject) -> Iterator[StateSample]:
    spec = section(claim.body, "spec")
    labels = {
        "storageclass": claim.annotations.get(_CLASS_ONCE, text(spec, "storageClassName")),
        "volumename": text(spec, "volumeName"),
        "volumemode": text(spec, "volumeMode"),
    }
    yield StateSample("kube_persistentvolumeclaim_info", 1, labels)
    if phase := text(section(claim.body, "status"), "phase"):
        yield from one_of(
            "kube_persistentvolumeclaim_status_phase", "phase", ("Lost", "Bound", "Pending"), phase
        )
    asked = quantity(str(section(spec, "resources", "requests").get("storage", "")))
    if asked is not None:
        metric = "kube_persistentvolumeclaim_resource_requests_storage_bytes"
        yield StateSample(metric, to_whole(asked))
