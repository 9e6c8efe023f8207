"""What is asked of the ledger, as a request writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.ledger.answers.cost import whole_hours
from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.ledger_sums import Dimension, Sharing, Window

if TYPE_CHECKING:
    from trilens.serve.params import Params

_MOST_DIMENSIONS: Final = 4
_DEFAULT_MS: Final = 24 * HOUR_MS


def read_window(params: Params, now_ms: int, lasts_ms: int = _DEFAULT_MS) -> Window:
    """Whole hours that have begun: the last 24 of them if nothing is said, or as many as last so long."""
    last_ms = whole_hours(now_ms, now_ms + 1)[1]
    to_ms = min(params.when_ms("to", last_ms, now_ms), last_ms)
    from_ms = params.when_ms("from", to_ms - lasts_ms, now_ms)
    if from_ms >= to_ms:
        is_future = from_ms >= last_ms
        raise RequestError(
            'invalid parameter "from": it is not before the end',
            hint="nothing is known of the future" if is_future else None,
        )
    return Window(*whole_hours(from_ms, to_ms), read_where(params))


def read_dimensions(params: Params, default: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    asked = [_dimension(name, "by") for text in params.every("by") for name in text.split(",") if name]
    if len(set(asked)) != len(asked):
        raise RequestError('invalid parameter "by": a dimension is named twice')
    if len(asked) > _MOST_DIMENSIONS:
        raise RequestError(f'invalid parameter "by": at most {_MOST_DIMENSIONS} dimensions at a time')
    return tuple(asked) or default


def read_where(params: Params) -> dict[Dimension, tuple[str | None, ...]]:
    """`where=team=vision`, several of one dimension for any of them; `team=` is what has none."""
    kept: dict[Dimension, tuple[str | None, ...]] = {}
    for text in params.every("where"):
        name, equals, value = text.partition("=")
        if not equals:
            raise RequestError(f'invalid parameter "where": {text!r} is not DIMENSION=VALUE')
        dimension = _dimension(name.strip(), "where")
        if dimension in (Dimension.HOUR, Dimension.DAY):
            raise RequestError(f'invalid parameter "where": {name} is told by from and to')
        if dimension is Dimension.BUCKET and value not in [*Bucket]:
            known = ", ".join(bucket.value for bucket in Bucket)
            raise RequestError(f'invalid parameter "where": no bucket {value!r}', hint=f"there are {known}")
        kept[dimension] = (*kept.get(dimension, ()), value.strip() or None)
    return kept


def read_sharing(params: Params, default: Sharing) -> Sharing:
    text = params.first("share")
    if not text:
        return default
    try:
        return Sharing(text)
    except ValueError as e:
        known = " or ".join(one.value for one in Sharing)
        raise RequestError(f'invalid parameter "share": {text!r}', hint=f"write {known}") from e


def read_flag(params: Params, name: str, *, default: bool) -> bool:
    text = params.first(name).lower()
    if text not in ("", "true", "false"):
        raise RequestError(f'invalid parameter "{name}": write true or false')
    return text == "true" if text else default


def _dimension(name: str, parameter: str) -> Dimension:
    try:
        return Dimension(name)
    except ValueError as e:
        known = ", ".join(one.value for one in Dimension)
        raise RequestError(
            f'invalid parameter "{parameter}": no dimension {name!r}', hint=f"there are {known}"
        ) from e
