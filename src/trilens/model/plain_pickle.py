"""Pickles that hold nothing but plain data, read without ever running anything.

`pickle` runs what a pickle tells it to. This reader knows only the instructions that build dicts, lists,
tuples, text, bytes, numbers, booleans and None: there is none that names a class or calls a function, and
what it does not know it refuses. What is allocated is bounded by the size of the input.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from trilens.model.errors import UnsafePickle

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BYTES: Final = 256 << 20
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 5_000_000  # as a reader meets them: what is referred to twice counts twice
_MAX_INSTRUCTIONS: Final = (
    3 * MAX_VALUES
)  # of which each may make a value: to make it, keep it and put it away
_MAX_KEY: Final = 1 << 60  # an int below is its own hash; larger ones can be chosen to have all the same
_NEWEST_PROTOCOL: Final = 5
_MARK: Final = object()
_HOLD: Final = frozenset({dict, list, tuple})

_CALLS: Final = {  # refused like every other unknown one; named, because these are what an attack needs
    0x63: "GLOBAL",
    0x69: "INST",
    0x6F: "OBJ",
    0x52: "REDUCE",
    0x62: "BUILD",
    0x81: "NEWOBJ",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x92: "NEWOBJ_EX",
    0x93: "STACK_GLOBAL",
    0x50: "PERSID",
    0x51: "BINPERSID",
}


def read_plain_pickle(content: bytes) -> object:
    """UnsafePickle for anything that is not plain data, is damaged, too deep or too large."""
    if len(content) > MAX_BYTES:
        raise UnsafePickle(f"a pickle of {len(content)} bytes; at most {MAX_BYTES} are read")
    reader = _Reader(content)
    try:
        value = reader.read()
    except (IndexError, struct.error, TypeError, ValueError, OverflowError) as e:
        raise UnsafePickle(f"a damaged pickle, at byte {reader.position}: {e or type(e).__name__}") from e
    except KeyError as e:
        what = "it refers to what is not in it"
        raise UnsafePickle(f"a damaged pickle, at byte {reader.position}: {what}") from e
    check_extent(value)
    return value


def check_extent(value: object) -> None:
    """UnsafePickle for a value too deep or too large to walk through, whatever it was decoded from."""
    if type(value) in _HOLD:
        _extent(value, 0, {})


def _extent(held: Any, depth: int, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values are in it, and how deep. One that is referred to often counts often, is met once."""
    if depth >= MAX_DEPTH:
        raise UnsafePickle(f"nested deeper than {MAX_DEPTH}")
    is_dict = type(held) is dict  # whose keys are text or numbers, and hold nothing
    values, height = (2 * len(held) if is_dict else len(held)), 1
    for child in [one for one in (held.values() if is_dict else held) if type(one) in _HOLD]:
        extent = known.get(id(child)) or _extent(child, depth + 1, known)
        values += extent[0]
        height = max(height, extent[1] + 1)
    if depth + height > MAX_DEPTH:
        raise UnsafePickle(f"nested deeper than {MAX_DEPTH}")
    if values > MAX_VALUES:
        raise UnsafePickle(f"more than {MAX_VALUES} values")
    known[id(held)] = values, height
    return values, height


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self) -> object:
        content, instructions, stack, memo = self._content, _INSTRUCTIONS, self._stack, self._memo
        for _ in range(_MAX_INSTRUCTIONS):
            at = self.position
            code = content[at]
            self.position = at + 1
            # Four of five instructions of a dump are these: BINGET, LONG_BINGET, BININT1, BINPUT, MARK.
            if code == 0x68:
                stack.append(memo[content[at + 1]])
                self.position = at + 2
                continue
            if code == 0x6A:
                stack.append(memo[int.from_bytes(content[at + 1 : at + 5], "little")])
                self.position = at + 5
                continue
            if code == 0x4B:
                stack.append(content[at + 1])
                self.position = at + 2
                continue
            if code == 0x71:
                memo[content[at + 1]] = self._plain(stack[-1])
                self.position = at + 2
                continue
            if code == 0x28:
                stack.append(_MARK)
                continue
            if code == 0x2E:  # STOP
                if len(self._stack) != 1:
                    raise ValueError("it does not end with one value")
                value: object = self._plain(self._stack.pop())
                return value
            instruction = instructions.get(code)
            if instruction is None:
                raise self._refusal(code)
            instruction(self)
        raise UnsafePickle(f"more than {_MAX_INSTRUCTIONS} instructions")

    def _refusal(self, code: int) -> UnsafePickle:
        name = _CALLS.get(code)
        what = f"{name}, which runs code" if name else f"the instruction {code:#04x}"
        return UnsafePickle(f"the pickle holds more than plain data: {what}, at byte {self.position - 1}")

    # -- input --

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._content):
            raise ValueError("it ends too early")
        taken = self._content[self.position : end]
        self.position = end
        return taken

    def _number(self, form: struct.Struct) -> Any:
        return form.unpack(self._take(form.size))[0]

    # -- stack --

    @staticmethod
    def _plain(value: Any) -> Any:
        if value is _MARK:
            raise ValueError("a mark where a value belongs")
        return value

    def _pop(self) -> Any:
        return self._plain(self._stack.pop())

    def _since_mark(self) -> list[Any]:
        stack = self._stack
        at = len(stack) - 1
        while at >= 0 and stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise ValueError("a mark is missing")
        taken = stack[at + 1 :]
        del stack[at:]
        return taken

    def _top(self, kind: type) -> Any:
        top = self._stack[-1]
        if not isinstance(top, kind):
            raise ValueError(f"{type(top).__name__} where a {kind.__name__} belongs")
        return top

    # -- instructions --

    def protocol(self) -> None:
        version = self._number(_U1)
        if version > _NEWEST_PROTOCOL:
            raise ValueError(f"protocol {version} is not known")

    def frame(self) -> None:
        self._number(_U8)  # only a hint for reading ahead

    def pop(self) -> None:
        self._stack.pop()

    def small_long(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(_U1)), "little", signed=True))

    def text(self, length: struct.Struct) -> None:
        self._stack.append(self._take(self._number(length)).decode("utf-8", "surrogatepass"))

    def raw(self, length: struct.Struct) -> None:
        self._stack.append(self._take(self._number(length)))

    def take_tuple(self, count: int) -> None:
        if len(self._stack) < count:
            raise ValueError("a tuple of more than there is")
        taken = tuple(self._plain(one) for one in self._stack[-count:])
        del self._stack[-count:]
        self._stack.append(taken)

    def marked_tuple(self) -> None:
        self._stack.append(tuple(self._since_mark()))

    def marked_list(self) -> None:
        self._stack.append(self._since_mark())

    def marked_dict(self) -> None:
        flat = self._since_mark()
        self._stack.append({})
        self._fill(flat)

    def append(self) -> None:
        value = self._pop()
        self._top(list).append(value)

    def appends(self) -> None:
        values = self._since_mark()
        self._top(list).extend(values)

    def set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._fill([key, value])

    def set_items(self) -> None:
        self._fill(self._since_mark())

    def _fill(self, flat: list[Any]) -> None:
        if len(flat) % 2:
            raise ValueError("a key without a value")
        keys = flat[::2]
        for key in keys:
            if not isinstance(key, str) and not (isinstance(key, int) and -_MAX_KEY < key < _MAX_KEY):
                raise ValueError(f"a key that is neither text nor a small number: {type(key).__name__}")
        self._top(dict).update(zip(keys, flat[1::2], strict=True))

    def keep(self, key: int) -> None:
        self._memo[key] = self._plain(self._stack[-1])

    def keep_by(self, form: struct.Struct) -> None:
        self.keep(self._number(form))

    def memoize(self) -> None:
        self.keep(len(self._memo))

    def number(self, form: struct.Struct) -> None:
        self._stack.append(self._number(form))

    def push(self, value: object) -> None:
        self._stack.append(value)


_U1, _U2, _U4, _U8 = (struct.Struct("<" + letter) for letter in "BHIQ")
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")

_INSTRUCTIONS: Final[dict[int, Callable[[_Reader], None]]] = {
    0x80: _Reader.protocol,
    0x95: _Reader.frame,
    0x30: _Reader.pop,
    0x4E: lambda reader: reader.push(None),
    0x88: lambda reader: reader.push(True),
    0x89: lambda reader: reader.push(False),
    0x4A: lambda reader: reader.number(_I4),
    0x4D: lambda reader: reader.number(_U2),
    0x8A: _Reader.small_long,
    0x47: lambda reader: reader.number(_F8),
    0x58: lambda reader: reader.text(_U4),
    0x8C: lambda reader: reader.text(_U1),
    0x8D: lambda reader: reader.text(_U8),
    0x42: lambda reader: reader.raw(_U4),
    0x43: lambda reader: reader.raw(_U1),
    0x8E: lambda reader: reader.raw(_U8),
    0x5D: lambda reader: reader.push([]),
    0x7D: lambda reader: reader.push({}),
    0x29: lambda reader: reader.push(()),
    0x85: lambda reader: reader.take_tuple(1),
    0x86: lambda reader: reader.take_tuple(2),
    0x87: lambda reader: reader.take_tuple(3),
    0x74: _Reader.marked_tuple,
    0x6C: _Reader.marked_list,
    0x64: _Reader.marked_dict,
    0x61: _Reader.append,
    0x65: _Reader.appends,
    0x73: _Reader.set_item,
    0x75: _Reader.set_items,
    0x72: lambda reader: reader.keep_by(_U4),
    0x94: _Reader.memoize,
}
