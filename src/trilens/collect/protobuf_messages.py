"""Protobuf messages described in code: no generated files, and the C decoder reads them."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "enum": _Field.TYPE_INT32,  # on the wire an enum is an int32; unknown values then need no care
}

# name -> (number, type); a type in brackets is repeated, a capital letter starts another message.
Description = dict[str, dict[str, tuple[int, str]]]


def message_classes(package: str, messages: Description, *, presence: bool = False) -> dict[str, Any]:
    """With `presence` a number that is not there can be told from a zero."""
    syntax = "proto2" if presence else "proto3"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax=syntax)
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
    pool = descriptor_pool.DescriptorPool()  # of our own: another library may bring the real types
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }
