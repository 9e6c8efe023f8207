"""Which samples a rank of a simulated training sees in which step. All closed form, so a step that is done
again after a restart sees the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.scenario import Training

_STRIDE: Final = 6_700_417  # a prime: its multiples visit every sample before one comes again


class SeenSamples(NamedTuple):
    epoch: int
    ids: Sequence[int]  # a range where they are not shuffled


def samples_of(spec: Training, ranks: int, rank: int, step: int) -> SeenSamples:
    """As a DistributedSampler deals them out: in turn. The end of an epoch that fills no step is left out."""
    size, a_step = spec.dataset_samples, spec.samples_per_step * ranks
    steps_an_epoch = max(1, size // a_step)
    epoch, at = divmod(step - 1, steps_an_epoch)
    first = at * a_step + rank
    in_turn = range(first, first + a_step, ranks)
    if not spec.shuffled:
        return SeenSamples(epoch, in_turn)
    return SeenSamples(epoch, [(place * _STRIDE + 7919 * epoch) % size for place in in_turn])
