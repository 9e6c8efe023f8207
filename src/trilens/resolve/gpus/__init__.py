"""Which GPUs there are, who has them, and which are missing: from what is told about them, reconciled."""
