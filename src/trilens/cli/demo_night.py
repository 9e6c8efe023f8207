"""`trilens demo --once`: a simulated night, what it cost, and where that went."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import typer

from trilens.cli.cost_figures import amount_text, share_text
from trilens.cli.cost_why_text import show_why
from trilens.cli.plain_table import print_table
from trilens.cli.progress import hours_progress

if TYPE_CHECKING:
    from trilens.serve.money.cost_answers import WhyAnswer
    from trilens.serve.rehearsal.bill import NightBill

_SCENARIO: Final = "night"
_CLUSTER: Final = "night"
_HOURS: Final = 11
_BEGINS_H: Final = 21  # in the evening, UTC
_DAY_S: Final = 86_400
_HOUR_MS: Final = 3_600_000
_CAUSES: Final = 100  # in JSON: all that anybody would look for
_TRUTHS: Final = 10  # --json has all


def run_night(gpus: int | None, seed: int, *, as_json: bool) -> None:
    """The last night that is over. `gpus` is None for as many as the scenario has."""
    from trilens.ledger.prices.book import default_book
    from trilens.serve.rehearsal.bill import book, read_bill
    from trilens.serve.rehearsal.night import follow
    from trilens.serve.storage import open_store
    from trilens.settings.storage import StorageSettings
    from trilens.simulate.scenario import load_scenario
    from trilens.simulate.world import World

    scenario = load_scenario(_SCENARIO)
    if gpus is not None:
        scenario = scenario.sized(gpus)
    begins_ms = _last_evening_s(time.time()) * 1000
    world = World(scenario, start_ms=begins_ms, seed=seed, telling_ranks=scenario.gpus)
    with TemporaryDirectory(prefix="trilens-night-") as directory:
        store = open_store(StorageSettings.model_validate({"data_dir": directory}), upkeep=False)
        try:
            with hours_progress(f"of {scenario.gpus:,} GPUs simulated", _HOURS) as passed:
                follow(world, store, _CLUSTER, begins_ms + _HOURS * _HOUR_MS, passed)
            with hours_progress("booked", _HOURS) as booked:
                book(world, store, default_book(), begins_ms, booked)
            night = read_bill(world, store, begins_ms, _CAUSES if as_json else None)
        finally:
            store.close()
    told = _told(night)
    if as_json:
        typer.echo(json.dumps(told))
    else:
        _show(told, night.why)


def _last_evening_s(now_s: float) -> int:
    """When the last night began that is over."""
    midnight = int(now_s) // _DAY_S * _DAY_S
    begins = midnight - _DAY_S + _BEGINS_H * 3600
    return begins if begins + _HOURS * 3600 <= now_s else begins - _DAY_S


def _told(night: NightBill) -> dict[str, Any]:
    """Money is in text: JSON's numbers are not exact. All prices of a shipped book have one currency."""
    import msgspec

    from trilens.serve.money.cost_view import amount_text as exact

    ((currency, bill),) = night.bill.items()
    buckets = night.buckets[currency]
    return {
        "bill": exact(bill),
        "sum": exact(sum(buckets.values())),
        "currency": currency,
        "buckets": {name: exact(quanta) for name, quanta in buckets.items()},
        "causes": msgspec.to_builtins(night.why.causes),
        "truth": [one._asdict() for one in night.truth],
        "from_ms": night.window.from_ms,
        "to_ms": night.window.to_ms,
    }


def _whose(truth: dict[str, Any]) -> str:
    if truth["workload"]:
        return str(truth["workload"])
    return f"(fleet) {truth['node']}".rstrip()


def _show(told: dict[str, Any], why: WhyAnswer) -> None:
    import msgspec

    spent = Decimal(told["bill"])
    rows = [
        [name, amount_text(amount, told["currency"]), share_text(float(Decimal(amount) / spent))]
        for name, amount in told["buckets"].items()
    ]
    print_table(["bucket", "cost", "share"], rows)
    typer.echo(f"\nthe bill {amount_text(told['bill'], told['currency'])}, and the buckets add up to it\n")
    show_why(msgspec.to_builtins(why))
    typer.echo("\nwhat was really lost, by the simulator's own truth, in GPU-hours:\n")
    print_table(
        ["workload", "bucket", "GPU-hours", "made to go wrong"],
        [
            [_whose(one), one["bucket"], f"{one['gpu_hours']:,.1f}", ", ".join(one["faults"])]
            for one in told["truth"][:_TRUTHS]
        ],
    )
