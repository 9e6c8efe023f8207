"""Every check of a server, by layer, in the order in which one rests on the other; and going through them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from trilens.model.errors import ServerError
from trilens.serve.checkup import access, backups, clusters, nodes, programs, samples, watching
from trilens.serve.checkup.finding import Examined, Finding, Layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.serve.checkup.evidence import Evidence

_AT_ONCE: Final = 6  # layers: a few that wait for somebody who says nothing hold up no others
OF_A_SERVER: Final = (
    Layer(
        "store",
        samples.store_sees,
        (
            samples.storage,
            samples.slow_disk,
            samples.recent_window,
            samples.source,
            samples.unscraped,
            samples.reload,
        ),
    ),
    Layer(
        "access",
        access.access_sees,
        (access.who_comes_in, access.unnamed_proxy, access.proxy_without_secret, access.certificate),
    ),
    Layer("backups", backups.backups_see, (backups.failed, backups.overdue, backups.beside_the_data)),
    Layer(
        "scrapes",
        samples.scrapes_see,
        (samples.scrapes, samples.left_out, samples.discovery, samples.monitors, samples.collection),
    ),
    Layer(
        "kubernetes",
        clusters.clusters_see,
        (clusters.permissions, clusters.clusters, clusters.state_metrics, clusters.doubts),
    ),
    Layer("gpus", nodes.gpus_see, (nodes.gpus, nodes.counters)),
    Layer("agents", nodes.agents_see, (nodes.agents, nodes.agent_parts)),
    Layer("clocks", nodes.clocks_see, (nodes.server_clock, nodes.clocks, nodes.told_clocks)),
    Layer("rules", watching.rules_see, (watching.rules, watching.blind_rules)),
    Layer("detection", watching.detection_sees, (watching.detection,)),
    Layer("incidents", watching.incidents_see, (watching.unheard_incidents,)),
    Layer("delivery", watching.receivers_see, (watching.receivers,)),
    Layer("ledger", watching.ledger_sees, (watching.ledger,)),
    Layer("programs", programs.programs_see, (programs.records, programs.traces_out)),
    Layer("trackers", programs.trackers_see, (programs.trackers,)),
)


def examine_server(evidence: Evidence) -> list[Examined]:
    """ServerError where it does not answer at all."""
    _ = evidence.readiness
    return examine_layers(OF_A_SERVER, evidence)


def examine_layers(layers: Sequence[Layer], evidence: Any) -> list[Examined]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="checkup") as pool:
        return list(pool.map(lambda layer: examined(layer, evidence), layers))


def examined(layer: Layer, evidence: Any) -> Examined:
    """One check that cannot be made is a finding itself, and the others are made."""
    found: list[Finding] = []
    for check in layer.checks:
        try:
            found += check(evidence)
        except ServerError as e:
            what = f"cannot be checked: {e.message}"
            found.append(Finding(check.__name__, True, what, "nobody knows", e.hint or ""))
    try:
        sees = layer.sees(evidence)
    except ServerError:
        sees = ""  # one of its checks has said why
    return Examined(layer.name, sees, tuple(found))
