"""Kinds of the operators that the chart makes objects of, as an API server has them once they are installed.

It keeps whatever these objects hold: what their operators take of that is tested in test_chart_models.
"""

from __future__ import annotations

from kubernetes_client import Resource

_MONITORING, _KEDA = "monitoring.coreos.com", "keda.sh"
PROMETHEUSES = Resource(_MONITORING, "v1", "prometheuses", "Prometheus")
KINDS_OF_OPERATORS = (
    Resource(_MONITORING, "v1", "servicemonitors", "ServiceMonitor"),
    Resource(_MONITORING, "v1", "prometheusrules", "PrometheusRule"),
    PROMETHEUSES,
    Resource(_KEDA, "v1alpha1", "scaledobjects", "ScaledObject"),
    Resource(_KEDA, "v1alpha1", "triggerauthentications", "TriggerAuthentication"),
)
