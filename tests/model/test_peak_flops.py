"""Peaks of GPUs, under the names their drivers tell."""

import pytest

from trilens.model.peak_flops import peak_flops


@pytest.mark.parametrize(
    ("product", "dtype", "tera"),
    [
        ("NVIDIA H200", "bf16", 989.4),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.4),
        ("NVIDIA H100 80GB HBM3", "fp8", 1978.9),
        ("NVIDIA H100 PCIe", "fp16", 756.0),
        ("NVIDIA H100 NVL", "bf16", 835.5),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156.0),
        ("NVIDIA A100 80GB PCIe", "fp32", 19.5),
        ("NVIDIA A10", "bf16", 125.0),
        ("NVIDIA L40S", "bf16", 362.05),
        ("NVIDIA L4", "fp16", 121.0),
        ("NVIDIA GB200", "bf16", 2500.0),
        ("NVIDIA B200", "bf16", 2250.0),
        ("Tesla V100-PCIE-32GB", "fp16", 112.0),
        ("Tesla V100-SXM2-16GB", "fp16", 125.0),
        ("Tesla T4", "fp32", 8.1),
        ("AMD Instinct MI300X", "bf16", 1307.4),
    ],
)
def test_a_product_has_the_peak_of_its_datasheet(product: str, dtype: str, tera: float) -> None:
    assert peak_flops(product, dtype) == pytest.approx(tera * 1e12)


@pytest.mark.parametrize(
    ("product", "dtype"),
    [
        ("NVIDIA A10G", "bf16"),  # another product than the A10, which its name begins with
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "bf16"),  # a part of one
        ("NVIDIA GeForce RTX 9999", "bf16"),
        ("Tesla V100-SXM2-16GB", "bf16"),  # has none
        ("NVIDIA A100-SXM4-80GB", "fp8"),
        ("NVIDIA H200", "int3"),
        ("", "bf16"),
    ],
)
def test_what_is_not_known_has_no_peak(product: str, dtype: str) -> None:
    assert peak_flops(product, dtype) is None
