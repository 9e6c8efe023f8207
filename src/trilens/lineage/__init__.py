"""What went into a model: questions about runs, steps, batches and checkpoints, asked of `source.py`."""
