"""The fleet: how many GPUs there are, what they do, whose they are, which are ill."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from tools.dashboards.board import CLUSTER, Board, Section, field, link, to_board
from tools.dashboards.panels import Levels, Line, chart, listing, number, over_gpu_time, ranking

_C: Final = 'cluster=~"$cluster"'

# A code has no series before its first Xid, which increase() would miss: an hour ago there were none, where
# the agent was there; or it is younger, and has begun with none.
_XIDS: Final = f"trilens_gpu_xid_total{{{_C}}}"
_ANY: Final = f"trilens_gpu_xid_any_total{{{_C}}}"
_WAS_THERE: Final = f"({_ANY} offset 1h or min_over_time({_ANY}[1h]) == 0)"
_XIDS_BEFORE: Final = f"{_XIDS} offset 1h or 0 * {_XIDS} and on (Hostname, pci_bus_id) {_WAS_THERE}"

_NOW: Final = Section(
    "Now",
    (
        number("GPUs", f"sum(trilens_gpu_capacity{{{_C}}})", units.Short, "As Kubernetes counts them."),
        number(
            "GPUs lost",
            f"sum(trilens_gpu_lost{{{_C}}})",
            units.Short,
            "GPUs that their node should have and that do not report.",
            Levels(1, 1),
        ),
        number(
            "GPUs held",
            f'sum(trilens:gpu_share:ratio{{{_C}, workload!=""}})',
            units.Short,
            "By workloads; a MIG instance counts as one, a shared GPU as its shares.",
        ),
        number(
            "Utilization",
            f"avg(trilens:gpu_utilization:ratio{{{_C}}})",
            units.PercentUnit,
            "The mean over all GPUs. Some kernel ran, no more: a hung collective shows 100 %.",
            Levels(0.5, 0.3),
        ),
        number(
            "Goodput, last day",
            over_gpu_time("trilens_goodput_ratio", "cluster", _C),
            units.PercentUnit,
            "Useful GPU time of all that some signal told of, by the ledger.",
            Levels(0.6, 0.4),
        ),
        number(
            "Power",
            f"sum(trilens:gpu_power:watts{{{_C}}})",
            units.Watt,
            "Of all GPUs, without their machines.",
        ),
    ),
)

_USE: Final = Section(
    "Use",
    (
        chart(
            "What GPUs do",
            [Line(f"sum by (bucket) (trilens_cost_gpus{{{_C}}})", "{{bucket}}")],
            units.Short,
            "GPUs by bucket of the ledger, on the average of the open hour: productive, stalled, idle, ...",
            stacked=True,
        ),
        chart(
            "GPUs held by team",
            [Line(f'sum by (team) (trilens:gpu_share:ratio{{{_C}, workload!=""}})', "{{team}}")],
            units.Short,
            "Without a name: workloads that no team owns.",
            stacked=True,
            links=[to_board("cost", team="${__field.labels.team}")],
        ),
        chart(
            "Utilization: how it is spread",
            [
                Line(f"quantile(0.9, trilens:gpu_utilization:ratio{{{_C}}})", "nine of ten are below"),
                Line(f"quantile(0.5, trilens:gpu_utilization:ratio{{{_C}}})", "half is below"),
                Line(f"quantile(0.1, trilens:gpu_utilization:ratio{{{_C}}})", "one of ten is below"),
            ],
            units.PercentUnit,
            "A mean hides GPUs that do nothing beside those that do all.",
            most=1,
        ),
        chart(
            "How well they are used",
            [
                Line(f"avg(trilens:sm_active:ratio{{{_C}}})", "SMs active"),
                Line(f"avg(trilens:tensor_active:ratio{{{_C}}})", "tensor cores active"),
                Line(f"avg(trilens:dram_active:ratio{{{_C}}})", "memory active"),
                Line(f"avg(trilens:gpu_memory_used:ratio{{{_C}}})", "memory taken"),
            ],
            units.PercentUnit,
            "Means over GPUs and MIG instances that tell. dcgm-exporter tells SM activity if asked to.",
            most=1,
        ),
    ),
)

_HEALTH: Final = Section(
    "Health",
    (
        chart(
            "Temperature, the hottest nodes",
            [Line(f"topk(8, max by (Hostname) (trilens:gpu_temperature:celsius{{{_C}}}))", "{{Hostname}}")],
            units.Celsius,
            "The hottest GPU of each.",
            levels=Levels(80, 88),
        ),
        chart(
            "GPUs held back",
            [Line(f"sum by (reason) (trilens:gpu_throttled:bool{{{_C}}})", "{{reason}}")],
            units.Short,
            "GPUs whose clock is held down, by reason. sw_power_cap is normal at full load.",
        ),
        chart(
            "Memory errors and remapped rows",
            [
                Line(
                    # The aggregate counter has those of the volatile one as well, and never goes back.
                    f'sum(trilens:ecc_double_bit:total{{{_C}, counted="volatile"}})',
                    "double-bit errors since the driver was loaded",
                ),
                Line(f"sum(trilens:row_remap_failure:bool{{{_C}}})", "GPUs whose rows could not be remapped"),
            ],
            units.Short,
            "Either calls for a reset, and the second for another GPU.",
        ),
        chart(
            "Xids in the last hour",
            [Line(f"sum by (xid) ({_XIDS} - ({_XIDS_BEFORE}))", "Xid {{xid}}")],
            units.Short,
            "As agents counted them in the kernel's log. `trilens xid NUMBER` explains one.",
        ),
        chart(
            "Between GPUs and to the host",
            [
                Line(f"sum(trilens:nvlink_tx:bytes_per_second{{{_C}}})", "NVLink, sent"),
                Line(f"sum(trilens:pcie_tx:bytes_per_second{{{_C}}})", "PCIe, sent"),
                Line(f"sum(trilens:pcie_rx:bytes_per_second{{{_C}}})", "PCIe, received"),
            ],
            units.BytesPerSecondSI,
            "Sums over all GPUs that tell.",
        ),
        ranking(
            "Power by model",
            f"sum by (modelName) (trilens:gpu_power:watts{{{_C}}})",
            "{{modelName}}",
            units.Watt,
            "Where the energy goes.",
        ),
    ),
)

_TROUBLE: Final = Section(
    "Trouble",
    (
        listing(
            "Alerts",
            f'sum by (alertname, severity, layer) (ALERTS{{{_C}, alertstate="firing", layer!="trilens"}})',
            "What fires now, and for how many.",
            {"alertname": link("Incidents in Trilens", "${trilens}/incidents")},
            value="how many",
        ),
        listing(
            "Findings",
            f"sum by (finding, cause, severity, namespace, workload, node) (trilens_finding{{{_C}}})",
            "What the detectors see now.",
            {"workload": to_board("workload", namespace=field("namespace"), workload=field("workload"))},
        ),
        listing(
            "Nodes that lack GPUs",
            f"sum by (cluster, node) (trilens_gpu_lost{{{_C}}}) > 0",
            "Empty while all report.",
            {"node": link("Fleet in Trilens", "${trilens}/fleet")},
            value="GPUs lost",
        ),
        listing(
            "Nodes that are not ready",
            "sum by (cluster, node) "
            f'(kube_node_status_condition{{{_C}, condition="Ready", status!="true"}} == 1)',
            "Empty while all are.",
            {"node": link("Fleet in Trilens", "${trilens}/fleet")},
        ),
    ),
)

FLEET: Final = Board(
    "fleet",
    "Fleet",
    "How many GPUs there are, what they do, whose they are, and which are ill.",
    (CLUSTER,),
    (_NOW, _USE, _HEALTH, _TROUBLE),
    page="/fleet",
)
