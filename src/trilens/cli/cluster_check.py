"""The clusters of a settings file: whether their kinds are known and their kubeconfigs can be used."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from trilens.settings.tree import Settings
    from trilens.settings.yaml_file import Place


def check_clusters(settings: Settings, looking: Callable[[], AbstractContextManager[None]]) -> list[str]:
    """Raises ConfigError at the key that is wrong; returns what could not be checked. `looking` is around the
    reading of each file."""
    warnings = []
    for name, cluster in settings.kubernetes.clusters.items():
        with _at(settings.cluster_place(name, "leave_out")):
            choose(leave_out=cluster.leave_out)
        with _at(settings.cluster_place(name, "add")):
            choose(add=cluster.add)
        file = cluster.kubeconfig_beside(settings.base_dir)
        if file is None:
            warnings.append(f"the cluster {name!r}: in_cluster can be checked only in a pod of it")
        else:
            with looking(), _at(settings.cluster_place(name, "kubeconfig")):
                KubeconfigAccess(file, cluster.context).check()
    return warnings


@contextmanager
def _at(place: Place) -> Iterator[None]:
    try:
        yield
    except ConfigError as e:
        raise ConfigError(f"{place}: {e.message}", where=place.where, hint=e.hint) from e
