"""The protobuf messages of remote write.

In a whole request a time series is kept as bytes: the receiver recognises most of them without decoding.
"""

from __future__ import annotations

from typing import Final

from trilens.collect.protobuf_messages import Description, message_classes

_V1: Final[Description] = {
    "Label": {"name": (1, "string"), "value": (2, "string")},
    "Sample": {"value": (1, "double"), "timestamp": (2, "int64")},
    "TimeSeries": {
        "labels": (1, "[Label]"),
        "samples": (2, "[Sample]"),
        "exemplars": (3, "[bytes]"),
        "histograms": (4, "[bytes]"),
    },
    "MetricMetadata": {
        "type": (1, "enum"),
        "metric_family_name": (2, "string"),
        "help": (4, "string"),
        "unit": (5, "string"),
    },
    "WriteRequest": {"timeseries": (1, "[bytes]"), "metadata": (3, "[MetricMetadata]")},
}
_V2: Final[Description] = {
    "Sample": {"value": (1, "double"), "timestamp": (2, "int64")},
    "Metadata": {"type": (1, "enum"), "help_ref": (3, "uint32"), "unit_ref": (4, "uint32")},
    "TimeSeries": {
        "labels_refs": (1, "[uint32]"),
        "samples": (2, "[Sample]"),
        "histograms": (3, "[bytes]"),
        "exemplars": (4, "[bytes]"),
        "metadata": (5, "Metadata"),
    },
    "Request": {"symbols": (4, "[string]"), "timeseries": (5, "[bytes]")},
}

METRIC_TYPES: Final = (
    "unknown",
    "counter",
    "gauge",
    "histogram",
    "gaugehistogram",
    "summary",
    "info",
    "stateset",
)
"""By the number that both versions give them."""


_v1 = message_classes("prometheus", _V1)
_v2 = message_classes("io.prometheus.write.v2", _V2)

WriteRequest: Final = _v1["WriteRequest"]
TimeSeries: Final = _v1["TimeSeries"]
RequestV2: Final = _v2["Request"]
TimeSeriesV2: Final = _v2["TimeSeries"]
