"""Simple plots of what the tables hold. matplotlib is loaded when the first is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.client.frames import needed
from trilens.model.errors import NotFound, RequestError
from trilens.model.step_phases import SYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.client.frames import Frame

# Okabe and Ito's colours, which people who see fewer colours tell apart.
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#666666")
_HATCHES: Final = ("", "//", "..", "xx", "\\\\", "oo", "--", "++")  # colour is never alone
_WAITS: Final = tuple(f"phase.{name}_s" for name in SYNC_PHASES)  # for other ranks
_MOST_RECORDS: Final = 100_000
_MOST_BARS: Final = 15


def curves(of_runs: Mapping[str, Frame], value: str, over: str, ax: Any = None) -> Any:
    if not of_runs:
        raise RequestError("no run was named", hint='plot_loss("RUN"); runs() lists them')
    if over not in ("step", "time"):
        raise RequestError(f"{over!r} is no axis", hint='over is "step" or "time"')
    ax = _axes(ax)
    for at, (run, curve) in enumerate(of_runs.items()):
        for attempt, part in curve.groupby("attempt"):
            label = run if attempt == curve["attempt"].min() else None
            ax.plot(part[over], part["mean"], color=_COLOURS[at % len(_COLOURS)], label=label, linewidth=1.2)
    ax.set_xlabel("step" if over == "step" else "time (UTC)")
    ax.set_ylabel(value)
    ax.legend(frameon=False)
    return _plain(ax)


def cost(spent: Frame, by: Sequence[str], ax: Any = None) -> Any:
    """The largest bars, the largest on top; what has no price is not drawn, and the title says so."""
    if len(by) > 2:
        raise RequestError("a plot has one or two dimensions", hint='plot_cost(["team", "bucket"])')
    currency = spent.attrs["currency"]
    if currency is None:
        raise RequestError("there is no one currency to draw in", hint="cost(where={...}) narrows it down")
    priced = spent.dropna(subset=["amount"])
    first = priced[by[0]].astype("string").fillna("(none)")
    second = priced[by[1]].astype("string").fillna("(none)") if len(by) == 2 else first.map(lambda _: "")
    table = (
        priced.groupby([first.rename("bar"), second.rename("piece")])["amount"].sum().unstack(fill_value=0)
    )
    sums = table.sum(axis=1).sort_values()
    table = table.loc[sums.index[-_MOST_BARS:], table.sum().sort_values(ascending=False).index]
    ax = _axes(ax)
    left = [0.0] * len(table)
    for at, piece in enumerate(table.columns):
        widths = [*table[piece]]
        colour, hatch = _COLOURS[at % len(_COLOURS)], _HATCHES[at // len(_COLOURS) % len(_HATCHES)]
        ax.barh([*table.index], widths, left=left, color=colour, hatch=hatch, label=piece, edgecolor="white")
        left = [a + b for a, b in zip(left, widths, strict=True)]
    ax.set_xlabel(currency)
    unpriced = spent["unpriced_gpu_hours"].sum()
    hidden = len(sums) - len(table)
    notes = [f"{unpriced:,.1f} GPU-hours have no price"] if unpriced else []
    ax.set_title("; ".join([*notes, *([f"{hidden} smaller not shown"] if hidden else [])]), fontsize=9)
    if len(by) == 2:
        ax.legend(frameon=False, fontsize=8)
    return _plain(ax)


def ranks(steps: Frame, workload: str, ax: Any = None) -> Any:
    """The last time that each rank did each step, without its waits: all ranks of a job take as long as the
    slowest, which is the one that does not wait. White is what nobody told."""
    if not len(steps):
        raise NotFound(f"no step of {workload} is known")
    waits = [name for name in _WAITS if name in steps.columns]
    own = steps.assign(own_s=steps["step_s"] - steps[waits].fillna(0).sum(axis=1))
    last = own.sort_values(["attempt", "n"]).groupby(["rank", "step"])["own_s"].last().unstack()
    ax = _axes(ax)
    drawn = ax.pcolormesh([*last.columns], [*last.index], last.to_numpy(dtype=float), cmap="cividis")
    ax.figure.colorbar(drawn, ax=ax, label="step without waits (s)")
    ax.set_xlabel("step")
    ax.set_ylabel("rank")
    ax.set_title(workload, fontsize=9)
    return _plain(ax)


def newest_run(runs: Sequence[Mapping[str, Any]], workload: str) -> Mapping[str, Any]:
    if not runs or runs[0]["step"] is None:
        raise NotFound(f"no steps of {workload} are known", hint="docs/sdk.md: what its program has to tell")
    return runs[0]


def fewer_steps(steps: int, ranks: int) -> int:
    """As many as can be read at once: of 4,096 ranks, the last 24."""
    return max(1, min(steps, _MOST_RECORDS // max(1, ranks)))


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    plt = needed("matplotlib.pyplot", "plots")
    return plt.subplots(figsize=(8, 4), layout="constrained")[1]


def _plain(ax: Any) -> Any:
    ax.spines[["top", "right"]].set_visible(False)
    return ax
