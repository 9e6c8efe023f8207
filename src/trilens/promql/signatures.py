"""The functions of PromQL: what they take and what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from trilens.promql.nodes import ValueKind


class Signature(NamedTuple):
    """`args` are the kinds of the arguments; the last one may stand for all between `least` and `most`."""

    args: tuple[ValueKind, ...]
    least: int
    most: int | None  # None for any number
    returns: ValueKind

    def kind(self, place: int) -> ValueKind:
        return self.args[min(place, len(self.args) - 1)]


def _exactly(*args: ValueKind, returns: ValueKind = "vector") -> Signature:
    return Signature(args, len(args), len(args), returns)


def _up_to(most: int | None, *args: ValueKind) -> Signature:
    """The last argument may be left out, or given again, as long as there are no more than `most`."""
    return Signature(args, len(args) - 1, most, "vector")


_BY_SIGNATURE: Final = (
    (
        _exactly("vector"),
        "abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg "
        "histogram_count histogram_stddev histogram_stdvar histogram_sum ln log10 log2 rad sgn "
        "sin sinh sort sort_desc sqrt start_timestamp tan tanh timestamp",
    ),
    (
        _exactly("matrix"),
        "absent_over_time avg_over_time changes count_over_time delta deriv first_over_time idelta increase "
        "irate last_over_time mad_over_time max_over_time min_over_time present_over_time rate resets "
        "stddev_over_time stdvar_over_time sum_over_time ts_of_first_over_time ts_of_last_over_time "
        "ts_of_max_over_time ts_of_min_over_time",
    ),
    (
        _up_to(1, "vector"),
        "day_of_month day_of_week day_of_year days_in_month hour minute month year",
    ),
    (_exactly(returns="scalar"), "end pi range start step time"),
    (_exactly("vector", returns="scalar"), "scalar"),
    (_exactly("scalar"), "vector"),
    (_exactly("scalar", "scalar", returns="scalar"), "max_of min_of"),
    (_exactly("vector", "scalar"), "clamp_max clamp_min"),
    (_exactly("vector", "scalar", "scalar"), "clamp"),
    (_up_to(2, "vector", "scalar"), "round"),
    (_exactly("matrix", "scalar"), "predict_linear"),
    (_exactly("matrix", "scalar", "scalar"), "double_exponential_smoothing"),
    (_exactly("scalar", "matrix"), "quantile_over_time"),
    (_exactly("scalar", "vector"), "histogram_quantile"),
    (_exactly("scalar", "scalar", "vector"), "histogram_fraction"),
    (_up_to(12, "vector", "string", "scalar", "scalar"), "histogram_quantiles"),
    (_up_to(None, "vector", "string"), "sort_by_label sort_by_label_desc"),
    (_up_to(None, "vector", "string", "string", "string"), "label_join"),
    (_exactly("vector", "string", "string", "string", "string"), "label_replace"),
)

SIGNATURES: Final[dict[str, Signature]] = {
    name: signature for signature, names in _BY_SIGNATURE for name in names.split()
}
