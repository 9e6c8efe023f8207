"""Tables as pandas or Arrow has them."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trilens.client.table import Kind
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.client.table import Table

Frame: TypeAlias = Any  # pandas.DataFrame, or pyarrow.Table with as_arrow; neither need be installed

# What can be missing: an integer that nobody told is <NA>, never 0 and never 3.0.
_PANDAS: Final = {
    Kind.TEXT: "string",
    Kind.WHOLE: "Int64",
    Kind.NUMBER: "float64",
    Kind.TRUTH: "boolean",
    Kind.MONEY: "float64",
    Kind.TEXTS: "object",
}
_UNITS: Final = {Kind.TIME_MS: "ms", Kind.TIME_US: "us"}


def frame(table: Table, *, as_arrow: bool, index: str | None = None) -> Frame:
    return arrow_table(table) if as_arrow else pandas_frame(table, index)


def pandas_frame(table: Table, index: str | None = None) -> Frame:
    pd = needed("pandas", "tables", "as_arrow=True gives Arrow's")
    columns = {name: _series(pd, kind, values) for name, (kind, values) in table.columns.items()}
    found = pd.DataFrame(columns)
    if index is not None:
        found = found.set_index(index)
    found.attrs.update(_about(table))
    return found


def arrow_table(table: Table) -> Frame:
    """What holds for all of it is in the schema's metadata, as JSON."""
    pa = needed("pyarrow", "Arrow tables")
    arrays = {name: pa.array(values, _arrow_type(pa, kind)) for name, (kind, values) in table.columns.items()}
    told = {name: json.dumps(value) for name, value in _about(table).items()}
    return pa.table(arrays).replace_schema_metadata(told)


def needed(package: str, what: str, otherwise: str = "") -> Any:
    try:
        return import_module(package)
    except ImportError as e:
        rest = f"; {otherwise}" if otherwise else ""
        raise ConfigError(
            f"{what} need the package {package!r}, which is not installed",
            hint=f"pip install 'trilens[notebook]'{rest}",
        ) from e


def _series(pd: Any, kind: Kind, values: Sequence[Any]) -> Any:
    if kind not in _UNITS:
        return pd.Series([*values], dtype=_PANDAS[kind])
    # By way of whole numbers: as floats, microseconds of today are not exact.
    times = pd.to_datetime(pd.Series([*values], dtype="Int64"), unit=_UNITS[kind], utc=True)
    return times.astype(f"datetime64[{_UNITS[kind]}, UTC]")


def _arrow_type(pa: Any, kind: Kind) -> Any:
    if kind in _UNITS:
        return pa.timestamp(_UNITS[kind], "UTC")
    types = {
        Kind.TEXT: pa.string(),
        Kind.WHOLE: pa.int64(),
        Kind.TRUTH: pa.bool_(),
        Kind.TEXTS: pa.list_(pa.string()),
    }
    return types.get(kind, pa.float64())


def _about(table: Table) -> dict[str, Any]:
    return {"currency": table.currency, "warnings": [*table.warnings], **table.about}
