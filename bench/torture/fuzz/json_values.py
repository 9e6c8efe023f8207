"""JSON of the right shape that is wrong in places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    2**64,
    1e308,
    float("nan"),
    "",
    "9" * 5000,
    "-1",
    "1e9999999",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999-23:59",
    "2026-01-14T12:00:00Z",
    "'; DROP TABLE samples; --",
    "<script>alert(1)</script>",
    "\x1b[2J\x00",
    "🙂",
    [],
    {},
    [[]],
    [None],
    {"": None},
)


def anything() -> SearchStrategy[Any]:
    plain = (
        st.sampled_from(_ODD)
        | st.integers()
        | st.floats()
        | st.text(st.characters(codec="utf-8"), max_size=8)
    )
    return st.recursive(
        plain,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3)
        ),
        max_leaves=6,
    )


@st.composite
def bent(draw: st.DrawFn, like: Any, most: int = 4) -> Any:
    """As `like`, but for a few places where it has something else, or nothing."""
    found = like
    for _ in range(draw(st.integers(0, most))):
        found = _changed(draw, found)
    return found


def _changed(draw: st.DrawFn, value: Any) -> Any:
    stop = draw(st.integers(0, 3)) == 0
    if isinstance(value, dict) and value and not stop:
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 9)) == 0:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: _changed(draw, value[name])}
    if isinstance(value, list) and value and not stop:
        at = draw(st.integers(0, len(value) - 1))
        if draw(st.integers(0, 9)) == 0:
            return value + value
        return [*value[:at], _changed(draw, value[at]), *value[at + 1 :]]
    return draw(anything())
