"""Whose each GPU-millisecond is, in which bucket, and what it costs."""
