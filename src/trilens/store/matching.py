"""A matcher applied to columns of interned strings: each distinct string is looked at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trilens.model.errors import PromQLEvalError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Codes, Symbols
    from trilens.model.matcher import Matcher

_UNKNOWN = -1


class TextMatcher:
    """`=` and `!=` compare codes; a regular expression remembers its answer for every code it has seen."""

    def __init__(self, matcher: Matcher, symbols: Symbols) -> None:
        self._symbols = symbols
        self._value = matcher.value
        self._negated = matcher.op in ("!=", "!~")
        self._regex = matcher.op in ("=~", "!~")
        self._pattern = f"^(?s:{matcher.value})$"
        self._memo = np.zeros(0, dtype=np.int8)
        self._lock = threading.Lock()
        if self._regex:
            self._search([""])  # a bad pattern is refused before anything is read

    def matches_text(self, text: str) -> bool:
        if self._regex:
            code = self._symbols.find(text)
            if code is not None:
                return bool(self.matches(np.array([code], dtype=np.int32))[0])
            return bool(self._search([text])[0]) != self._negated
        return (text == self._value) != self._negated

    def matches(self, codes: Codes) -> NDArray[np.bool_]:
        if not self._regex:
            wanted = self._symbols.find(self._value)
            hit: NDArray[np.bool_] = codes == (-1 if wanted is None else wanted)  # no code is -1
            return ~hit if self._negated else hit
        answer: NDArray[np.bool_] = self._answers(codes) == (0 if self._negated else 1)
        return answer

    def _answers(self, codes: Codes) -> NDArray[np.int8]:
        if len(codes) == 0:
            return np.zeros(0, dtype=np.int8)
        memo = self._memo
        top = int(codes.max())
        if top < len(memo):
            answers = memo[codes]
            if not (answers == _UNKNOWN).any():
                return answers
        with self._lock:
            if top >= len(self._memo):
                grown = np.full(max(len(self._symbols), top + 1), _UNKNOWN, dtype=np.int8)
                grown[: len(self._memo)] = self._memo
                self._memo = grown
            memo = self._memo
            seen = np.unique(codes)
            new = seen[memo[seen] == _UNKNOWN]
            if len(new):
                memo[new] = self._search(self._symbols.texts(new.tolist()))
        return memo[codes]

    def _search(self, texts: list[str]) -> NDArray[np.bool_]:
        try:
            hits = pc.match_substring_regex(pa.array(texts, type=pa.string()), pattern=self._pattern)
        except pa.ArrowInvalid as e:
            raise PromQLEvalError(f"bad regular expression {self._value!r}: {e}") from e
        result: NDArray[np.bool_] = hits.to_numpy(zero_copy_only=False)
        return result
