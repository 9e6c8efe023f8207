"""Detectors: what one PromQL expression cannot say. One in each file, with a code of its own."""
