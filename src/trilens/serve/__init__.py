"""The HTTP server: the Prometheus API, health, its own metrics; compose.py puts everything together,
apis.py makes of it what is asked over HTTP, life.py begins and ends it."""
