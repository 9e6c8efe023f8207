"""What nobody has connected yet: nothing is wrong, and a part of the picture is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.serve.checkup.evidence import Evidence


def no_gpus(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.ask("count(trilens_gpu_reporting > 0)"):
        what = "no GPU is known"
        means = "no use, power, temperature or fault of any GPU, and nothing to book money on"
        remedy = "run dcgm-exporter or trilens agent on the GPU nodes, and let the server scrape them"
        yield Finding("no_gpus", False, what, means, remedy)


def no_cluster(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.clusters:
        what = "no Kubernetes cluster is watched"
        means = "pods, events, owners and teams are unknown: GPUs are held by processes, and not by workloads"
        yield Finding("no_cluster", False, what, means, "name your clusters in the settings")


def no_programs(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.own("trilens_run_processes_alive"):
        what = "no training program tells of itself now"
        means = "no loss, steps, time left or goodput; a hang is told from slow work by the GPUs alone"
        yield Finding("no_programs", False, what, means, "start programs under Trilens, or use the SDK")


def no_trackers(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.trackers:
        what = "no experiment tracker is followed"
        means = "runs that only MLflow, W&B or TensorBoard know are not compared with their cost"
        yield Finding("no_trackers", False, what, means, "name yours in the settings")


def list_prices(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.prices["file"]:
        what = "prices are the list prices that Trilens ships"
        means = "amounts are not what you pay: contracts, commitments and your own machines differ"
        yield Finding("list_prices", False, what, means, "write your prices into a file")


def unpriced(evidence: Evidence) -> Iterator[Finding]:
    """As the metrics of cost tell, which are of the present."""
    found = evidence.ask("trilens_cost_unpriced_gpus > 0")
    models = sorted({one.get("gpu_model") or "unknown" for one in found})
    if models:
        what = f"{many(len(models), 'GPU model')} without a price: {few(models)}"
        yield Finding("unpriced", True, what, "their time is in no amount", "add a price for each of them")


def no_budgets(evidence: Evidence) -> Iterator[Finding]:
    if not evidence.ask("trilens_budget_amount"):
        what = "no budget is set"
        means = "nobody is warned before a team has spent its month"
        yield Finding("no_budgets", False, what, means, "set what each team may spend")


def no_receivers(evidence: Evidence) -> Iterator[Finding]:
    """Where incidents are open, that check says it already."""
    if not evidence.receivers and not evidence.incidents:
        what = "nobody would be told of an incident"
        means = "incidents are seen only by who looks here"
        yield Finding("no_receivers", False, what, means, "name who is to be told, and how")


# By the layer that each belongs to.
UNCONNECTED: Final[dict[str, tuple[Callable[[Evidence], Iterator[Finding]], ...]]] = {
    "gpus": (no_gpus,),
    "kubernetes": (no_cluster,),
    "programs": (no_programs,),
    "trackers": (no_trackers,),
    "ledger": (unpriced, list_prices, no_budgets),
    "delivery": (no_receivers,),
}
