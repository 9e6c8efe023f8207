"""The functions that every Go template has, but for `and` and `or`, which do not look at all arguments."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from trilens.alert.templates.call_error import CallError
from trilens.alert.templates.sprintf import sprint
from trilens.alert.templates.values import is_true, shown, type_name

_BASIC = {bool: "bool", int: "int", float: "float", str: "string"}
_SAFE_JS = {
    "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D",
}  # fmt: skip


def equal(first: Any, *others: Any) -> bool:
    if not others:
        raise CallError("missing argument for comparison")
    return any(_is_equal(first, other) for other in others)


def _is_equal(one: Any, other: Any) -> bool:
    kind, other_kind = _BASIC.get(type(one)), _BASIC.get(type(other))
    if kind != other_kind:
        if one is None or other is None:
            return False
        raise CallError("incompatible types for comparison")
    if kind is None and one is not None and other is not None:
        if isinstance(one, dict | list) or isinstance(other, dict | list):
            raise CallError(
                f"non-comparable types {shown(one)}: {type_name(one)}, {type_name(other)}: {shown(other)}"
            )
        return one is other
    return bool(one == other)


def not_equal(one: Any, other: Any) -> bool:
    return not equal(one, other)


def less(one: Any, other: Any) -> bool:
    kind, other_kind = _BASIC.get(type(one)), _BASIC.get(type(other))
    if kind is None or other_kind is None:
        raise CallError("invalid type for comparison")
    if kind != other_kind:
        raise CallError("incompatible types for comparison")
    if kind == "bool":
        raise CallError("invalid type for comparison")
    return bool(one < other)


def less_or_equal(one: Any, other: Any) -> bool:
    return less(one, other) or equal(one, other)


def greater(one: Any, other: Any) -> bool:
    """As Go has it: whatever is neither less nor equal, so that NaN is greater than everything."""
    return not less_or_equal(one, other)


def greater_or_equal(one: Any, other: Any) -> bool:
    return not less(one, other)


def negate(value: Any) -> bool:
    return not is_true(value)


def length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict | list):
        return len(value)
    raise CallError("len of nil pointer" if value is None else f"len of type {type_name(value)}")


def index(value: Any, *keys: Any) -> Any:
    if value is None:
        raise CallError("index of untyped nil")
    for key in keys:
        if isinstance(value, dict):
            if not isinstance(key, str):
                raise CallError(
                    "value is nil; should be string"
                    if key is None
                    else f"value has type {type_name(key)}; should be string"
                )
            value = value.get(key, "" if type_name(value) == "map[string]string" else None)
        elif isinstance(value, list | str):
            items = value if isinstance(value, list) else value.encode()
            value = items[_place(key, len(items))]
        elif value is None:
            raise CallError("index of nil pointer")
        else:
            raise CallError(f"can't index item of type {type_name(value)}")
    return value


def _place(key: Any, beyond: int) -> int:
    if isinstance(key, bool) or not isinstance(key, int):
        what = "nil" if key is None else f"type {type_name(key)}"
        raise CallError(f"cannot index slice/array with {what}")
    if not 0 <= key < beyond:
        raise CallError(f"index out of range: {key}")
    return key


def cut(value: Any, *ends: Any) -> Any:
    if value is None:
        raise CallError("slice of untyped nil")
    if not isinstance(value, str | list):
        raise CallError(f"can't slice item of type {type_name(value)}")
    if len(ends) > 3:
        raise CallError(f"too many slice indexes: {len(ends)}")
    if len(ends) == 3 and isinstance(value, str):
        raise CallError("cannot 3-index slice a string")
    whole = value.encode() if isinstance(value, str) else value
    places = [_place(end, len(whole) + 1) for end in ends[:2]]
    start = places[0] if places else 0
    end = places[1] if len(places) > 1 else len(whole)
    if start > end:
        raise CallError(f"invalid slice index: {start} > {end}")
    taken = whole[start:end]
    return taken.decode(errors="replace") if isinstance(taken, bytes) else type(value)(taken)


def html(*args: Any) -> str:
    text = _text_of(args)
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ('"', "&#34;")):
        text = text.replace(char, entity)
    return text.replace("\0", "\ufffd")


def javascript(*args: Any) -> str:
    return "".join(
        _SAFE_JS.get(char) or (char if char.isprintable() else f"\\u{ord(char):04X}")
        for char in _text_of(args)
    )


def url_query(*args: Any) -> str:
    return quote_plus(_text_of(args), safe="~")


def _text_of(args: tuple[Any, ...]) -> str:
    if len(args) == 1 and isinstance(args[0], str):
        return args[0]
    return sprint(["<no value>" if arg is None else arg for arg in args])


def call(function: Any = None, *args: Any) -> Any:
    """No value of an alert is a function."""
    if function is None:
        raise CallError("call of nil")
    raise CallError(f"non-function of type {type_name(function)}")
