"""ServiceMonitor and PodMonitor objects as scrape jobs, as the Prometheus operator makes them.

    choice (which of them) -> job (one to its jobs; relabelling, selector) -> following (as they change)

What a job signs in with lies in Secrets: `keys` reads them, one by one, where that is granted.
"""
