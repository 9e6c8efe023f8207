"""What a GPU can do at most: dense FLOP/s by product and data type, as its maker's datasheet states them.

Datasheets like to state the figure with 2:4 sparsity, which is twice this one; training is dense. A product
that is not listed has no peak here, and so no utilisation: an unknown is not a guess.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Peak(NamedTuple):
    """In TFLOP/s; 16 bits stands for both fp16 and bf16 unless `bf16` says otherwise."""

    half: float
    fp32: float
    tf32: float | None = None
    fp8: float | None = None
    bf16: float | None = None  # 0: the product has none


_H100_SXM: Final = Peak(989.4, 66.9, tf32=494.7, fp8=1978.9)
_H100_NVL: Final = Peak(835.5, 60.0, tf32=417.5, fp8=1670.5)
_A100: Final = Peak(312.0, 19.5, tf32=156.0)
_MI300X: Final = Peak(1307.4, 163.4, tf32=653.7, fp8=2614.9)

# The first whose words are all in the name that the driver tells, in this order: the longer names first.
_PRODUCTS: Final[tuple[tuple[tuple[str, ...], Peak], ...]] = (
    (("gb300",), Peak(2500.0, 80.0, tf32=1250.0, fp8=5000.0)),
    (("gb200",), Peak(2500.0, 80.0, tf32=1250.0, fp8=5000.0)),
    (("b300",), Peak(2250.0, 75.0, tf32=1125.0, fp8=4500.0)),
    (("b200",), Peak(2250.0, 75.0, tf32=1125.0, fp8=4500.0)),
    (("gh200",), _H100_SXM),
    (("h200", "nvl"), _H100_NVL),
    (("h200",), _H100_SXM),
    (("h100", "pcie"), Peak(756.0, 51.2, tf32=378.0, fp8=1513.0)),
    (("h100", "nvl"), _H100_NVL),
    (("h100",), _H100_SXM),
    (("h800", "pcie"), Peak(756.0, 51.2, tf32=378.0, fp8=1513.0)),
    (("h800",), _H100_SXM),
    (("h20",), Peak(148.0, 44.0, tf32=74.0, fp8=296.0)),
    (("a100",), _A100),
    (("a800",), _A100),
    (("a30",), Peak(165.0, 10.3, tf32=82.0)),
    (("a40",), Peak(149.7, 37.4, tf32=74.8)),
    (("a10",), Peak(125.0, 31.2, tf32=62.5)),
    (("l40s",), Peak(362.05, 91.6, tf32=183.0, fp8=733.0)),
    (("l40",), Peak(181.05, 90.5, tf32=90.5, fp8=362.0)),
    (("l4",), Peak(121.0, 30.3, tf32=60.0, fp8=242.0)),
    (("v100s",), Peak(130.0, 16.4, bf16=0)),
    (("v100", "pcie"), Peak(112.0, 14.0, bf16=0)),
    (("v100",), Peak(125.0, 15.7, bf16=0)),
    (("t4",), Peak(65.0, 8.1, bf16=0)),
    (("mi325x",), _MI300X),
    (("mi300x",), _MI300X),
)


def peak_flops(product: str, dtype: str) -> float | None:
    """FLOP/s of one whole GPU. `dtype` is fp32, tf32, fp16, bf16 or fp8; None where it is not known.

    A MIG instance is a part of its GPU, and how large a part its name does not say reliably: unknown.
    """
    words = product.lower().replace("-", " ").replace("_", " ").split()
    if "mig" in words:
        return None
    for wanted, peak in _PRODUCTS:
        if set(wanted) <= set(words):
            return _of(peak, dtype)
    return None


def _of(peak: Peak, dtype: str) -> float | None:
    tera = {
        "fp32": peak.fp32,
        "tf32": peak.tf32,
        "fp16": peak.half,
        "bf16": peak.half if peak.bf16 is None else peak.bf16,
        "fp8": peak.fp8,
    }.get(dtype)
    return tera * 1e12 if tera else None
