"""Workload-aware observability for AI on GPUs."""

__version__ = "0.1.0.dev0"
