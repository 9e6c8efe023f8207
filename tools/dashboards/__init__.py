"""Grafana dashboards, made by code: `python -m tools.dashboards` writes them into the Helm chart."""
