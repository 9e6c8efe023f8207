"""Which samples a step saw, and how long the program waited for them."""

from trilens.sdk.data.batch import SampleBatch, told_batch
from trilens.sdk.data.follow import follow

__all__ = ["SampleBatch", "follow", "told_batch"]
