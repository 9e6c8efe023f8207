"""What comes to an inference service, fitted to the two services of the Azure LLM inference traces of 2023.

`tools/fit-inference-load` prints these figures. The traces are an hour long: that load follows the day is
not in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from trilens.model.series import Floats

QUANTILES: Final = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


class InferenceLoad(NamedTuple):
    """Tokens at QUANTILES, and how uneven requests come: the rate of every ten seconds is the mean times a
    gamma variable of this shape. The smaller, the burstier."""

    prompt_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]
    burst_shape: float


BIN_S: Final = 10.0

LOADS: Final[dict[str, InferenceLoad]] = {
    "conversation": InferenceLoad(
        prompt_tokens=(2, 181, 207, 396, 1020, 1189, 2734, 4083, 4142, 14050),
        output_tokens=(7, 41, 54, 85, 129, 395, 424, 451, 601, 1000),
        burst_shape=19.36,
    ),
    "code": InferenceLoad(
        prompt_tokens=(3, 75, 147, 578, 1469, 2744, 5188, 7303, 7436, 7437),
        output_tokens=(6, 6, 7, 9, 13, 24, 55, 90, 251, 1899),
        burst_shape=0.36,
    ),
}


def draw_tokens(quantiles: tuple[float, ...], uniform: Floats) -> Floats:
    """Between two quantiles, even on a logarithmic scale."""
    return np.exp(np.interp(uniform, QUANTILES, np.log(quantiles))).round()
