"""The HTTP server: the Prometheus API, health, its own metrics; compose.py puts everything together."""
