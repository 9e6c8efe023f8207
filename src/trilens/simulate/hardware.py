"""What the GPUs of a simulated cluster are, by the names that NVIDIA gives them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Host(NamedTuple):
    """What a cloud sells with so many of these GPUs in it."""

    instance_type: str
    vcpus: int
    memory_gib: int


class Model(NamedTuple):
    product: str  # as the driver says it, and dcgm-exporter's modelName
    memory_mib: int
    reserved_mib: int
    idle_watts: float
    most_watts: float
    sm_clock_mhz: int
    idle_clock_mhz: int
    memory_clock_mhz: int
    nvlink_bytes: float  # a second, at full load; 0 without NVLink
    slows_at_celsius: int
    has_memory_sensor: bool = True


MODELS: Final[dict[str, Model]] = {
    "B200": Model("NVIDIA B200", 183_359, 640, 135, 1000, 1965, 120, 3996, 7.2e11, 87),
    "H200": Model("NVIDIA H200", 143_771, 600, 76, 700, 1980, 345, 3201, 3.6e11, 87),
    "H100": Model("NVIDIA H100 80GB HBM3", 81_559, 475, 68, 700, 1980, 345, 2619, 3.1e11, 87),
    "A100": Model("NVIDIA A100-SXM4-80GB", 81_920, 560, 55, 400, 1410, 210, 1593, 2.0e11, 85),
    "L40S": Model("NVIDIA L40S", 46_068, 500, 33, 350, 2520, 210, 9001, 0, 90, has_memory_sensor=False),
    "L4": Model("NVIDIA L4", 23_034, 430, 13, 72, 2040, 210, 6251, 0, 88, has_memory_sensor=False),
}

# Amazon's, because every GPU of the table is sold there; by model and number of GPUs.
_HOSTS: Final[dict[tuple[str, int], Host]] = {
    ("B200", 8): Host("p6-b200.48xlarge", 192, 2048),
    ("H200", 8): Host("p5en.48xlarge", 192, 2048),
    ("H100", 1): Host("p5.4xlarge", 16, 256),
    ("H100", 8): Host("p5.48xlarge", 192, 2048),
    ("A100", 8): Host("p4de.24xlarge", 96, 1152),
    ("L40S", 1): Host("g6e.xlarge", 4, 32),
    ("L40S", 4): Host("g6e.12xlarge", 48, 384),
    ("L40S", 8): Host("g6e.48xlarge", 192, 1536),
    ("L4", 1): Host("g6.xlarge", 4, 16),
    ("L4", 4): Host("g6.12xlarge", 48, 192),
    ("L4", 8): Host("g6.48xlarge", 192, 768),
}


def host_of(model: str, gpus: int, instance_type: str | None = None) -> Host:
    """A machine that nobody sells has a name that no price list knows."""
    sold = _HOSTS.get((model, gpus), Host(f"sim.{model.lower()}.{gpus}x", 24 * gpus, 256 * gpus))
    return sold._replace(instance_type=instance_type) if instance_type else sold


_COMPUTE_SLICES: Final = 7  # into which MIG divides a GPU


def mig_instances(model: Model, profile: str) -> int:
    """How many instances of a profile such as `1g.10gb` fit on one GPU; ValueError where none does."""
    slices, _, memory = profile.partition("g.")
    if not slices.isdigit() or not memory.removesuffix("gb").isdigit() or not model.nvlink_bytes:
        raise ValueError(f"mig {profile!r} is no profile of {model.product}: write 1g.10gb, 2g.20gb, 3g.40gb")
    by_memory = round(model.memory_mib / 1024) // int(memory.removesuffix("gb"))
    count = min(_COMPUTE_SLICES // max(1, int(slices)), by_memory)
    if count < 1:
        raise ValueError(f"mig {profile!r} does not fit on {model.product}")
    return count


def mig_share(profile: str | None) -> float:
    """How much of its GPU one instance is; all of it without MIG."""
    return int(profile.partition("g.")[0]) / _COMPUTE_SLICES if profile else 1.0
