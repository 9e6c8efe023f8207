"""Where a node stands and how it was bought: the labels that tell, which every site names differently."""

from __future__ import annotations

from pydantic import Field

from trilens.settings.group import Group, Texts


class TopologySettings(Group):
    """Of each list the first label that a node carries wins."""

    zone: Texts = Field(
        default=("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
        description="Node labels for the zone.",
    )
    rack: Texts = Field(
        default=(
            "topology.kubernetes.io/rack",
            "cloud.provider.com/topology-rack",
            "cloud.google.com/gce-topology-subblock",
            "oci.oraclecloud.com/rdma.local_block_id",
        ),
        description="Node labels for the rack.",
    )
    switch: Texts = Field(
        default=(
            "network.topology.nvidia.com/leaf",
            "network.topology.nvidia.com/block",
            "topology.k8s.aws/network-node-layer-3",
            "cloud.google.com/gce-topology-block",
        ),
        description="Node labels for the switch nearest to the node.",
    )
    nvlink_domain: Texts = Field(
        default=("nvidia.com/gpu.clique", "network.topology.nvidia.com/accelerator"),
        description="Node labels for the NVLink domain.",
    )
    region: Texts = Field(
        default=("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
        description="Node labels for the region, for prices.",
    )
    instance_type: Texts = Field(
        default=("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
        description="Node labels for the machine's type, for prices.",
    )
    purchase: Texts = Field(
        default=("purchase",),
        description=(
            "Node labels that say how it is paid: `on-demand`, `spot`, `reserved` or `owned`. "
            "Without one, the labels of its cloud or autoscaler do."
        ),
    )
