"""DeepSpeed without its own communication among CPUs, in place of which it uses PyTorch's.

It compiles that one when it first runs on a machine without a GPU: most of a minute, with a compiler.
"""

import deepspeed.ops

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
