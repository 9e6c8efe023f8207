"""Trilens beside Prometheus and VictoriaMetrics: the same machine, the same data, the same run."""
