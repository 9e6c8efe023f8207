"""The protobuf messages of remote write, described in code: no generated files, and the C decoder reads them.

In a whole request a time series is kept as bytes: the receiver recognises most of them without decoding.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "enum": _Field.TYPE_INT32,  # on the wire an enum is an int32; unknown values then need no care
}

# name -> (number, type); a type in brackets is repeated, a capital letter starts another message.
_V1: Final = {
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
_V2: Final = {
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


def _build(package: str, messages: dict[str, dict[str, tuple[int, str]]]) -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for message_name, message_fields in messages.items():
        message = file.message_type.add(name=message_name)
        for field_name, (number, kind) in message_fields.items():
            field = message.field.add(name=field_name, number=number)
            repeated = kind.startswith("[")
            kind = kind.strip("[]")
            field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()  # of our own: another library may bring the real prometheus types
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


_v1 = _build("prometheus", _V1)
_v2 = _build("io.prometheus.write.v2", _V2)

WriteRequest: Final = _v1["WriteRequest"]
TimeSeries: Final = _v1["TimeSeries"]
RequestV2: Final = _v2["Request"]
TimeSeriesV2: Final = _v2["TimeSeries"]
