"""Targets that a Kubernetes API server knows of, with the labels that Prometheus gives them.

    section (what is configured) -> discovery (list and watch) -> roles (objects to targets)

It is loaded by the first job that asks for it: the HTTP client of `collect.kubernetes` takes its time.
"""
