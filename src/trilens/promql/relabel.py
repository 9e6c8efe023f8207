"""Functions that write labels or sort by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import re2

from trilens.model.errors import PromQLEvalError
from trilens.model.labels import METRIC_NAME
from trilens.promql.patterns import compile_pattern
from trilens.promql.vector import Vector, label_order, merge_equal

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REFERENCE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")


def check_label_name(name: str, where: str) -> None:
    if not name or any(0xDC80 <= ord(c) <= 0xDCFF for c in name):
        raise PromQLEvalError(f"invalid {where} {quoted(name)}")


def quoted(text: str) -> str:
    """In quotes, bytes that are no text written as \\xNN."""
    shown = "".join(f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)
    return f'"{shown}"'


def label_replace(vector: Vector, dst: str, replacement: str, src: str, pattern: str) -> Vector:
    try:
        matcher = compile_pattern(pattern)
    except re2.error as e:
        raise PromQLEvalError(f"invalid regular expression in label_replace(): {pattern}") from e
    symbols = vector.labels.symbols
    codes, which = np.unique(vector.labels.column(src), return_inverse=True)
    changed = np.zeros(len(codes), dtype=bool)
    new = np.zeros(len(codes), dtype=np.int32)
    for i, text in enumerate(symbols.texts(codes.tolist())):
        found = matcher.fullmatch(text)
        if found is not None:
            changed[i] = True
            new[i] = symbols.intern(_expand(found, replacement))
    which = which.reshape(-1)
    column = np.where(changed[which], new[which], vector.labels.column(dst)).astype(np.int32)
    return _with_label(vector, dst, column, changed[which])


def _expand(found: Any, template: str) -> str:
    def value(reference: re.Match[str]) -> str:
        dollar, bare, braced = reference.groups()
        if dollar:
            return "$"
        name: str = bare or braced
        try:
            return found.group(int(name) if name.isdigit() else name) or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(value, template)


def label_join(vector: Vector, dst: str, separator: str, sources: list[str]) -> Vector:
    symbols = vector.labels.symbols
    picked = vector.labels.take(slice(None)).keep(sources)
    group, first = picked.groups()
    columns = [vector.labels.column(s)[first] for s in sources]
    texts = (
        [separator.join(parts) for parts in zip(*(symbols.texts(c.tolist()) for c in columns), strict=True)]
        if sources
        else [""] * len(first)
    )
    codes = symbols.intern_all(texts)[group] if texts else np.zeros(0, dtype=np.int32)
    return _with_label(vector, dst, codes, np.ones(len(vector), dtype=bool))


def _with_label(vector: Vector, name: str, codes: NDArray[np.int32], written: NDArray[np.bool_]) -> Vector:
    drop = vector.drop_name & ~written if name == METRIC_NAME else vector.drop_name
    return merge_equal(vector.replace(labels=vector.labels.with_column(name, codes), drop_name=drop))


_DIGITS: Final = re.compile(r"(\d+)")


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Digits compare as numbers: "pod-9" before "pod-10"."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(text) if part]


def sort_by_label(vector: Vector, names: list[str], *, descending: bool) -> Vector:
    order = label_order(vector.labels)
    text = vector.labels.symbols.text
    columns = [vector.labels.column(name) for name in names]
    keys = [[_natural(text(int(column[row]))) for column in columns] for row in range(len(vector))]
    rows = sorted(order.tolist(), key=keys.__getitem__)
    if descending:
        rows.reverse()
    return vector.take(np.array(rows, dtype=np.intp))


def sort_by_value(vector: Vector, *, descending: bool) -> Vector:
    """NaN last either way."""
    values = vector.values[:, 0]
    return vector.take(np.argsort(-values if descending else values, kind="stable"))
