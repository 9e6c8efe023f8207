"""`trilens prices`: what GPUs and nodes cost, and which price counts for which."""

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from trilens.cli.options import AsCsv, Server

AsObject = Annotated[bool, typer.Option("--json", help="Print an object.")]


def prices(
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Check this file of prices, and ask it, not a server."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="MODEL", help="Which price counts for machines with this GPU, and why."
        ),
    ] = None,
    instance_type: Annotated[str | None, typer.Option(metavar="TYPE", help="... of this type.")] = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="... in this region.")] = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="... of this cloud.")] = None,
    purchase: Annotated[
        str | None, typer.Option(metavar="HOW", help="... paid so: on-demand, spot, reserved, owned.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="... of this cluster.")] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="... of this name; a server looks up what else is known of it.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(metavar="COUNT", min=1, help="... with so many GPUs [default: as known, else 1]."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="... at this time [default: now].")] = None,
    server: Server = None,
    as_json: AsObject = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the price book of a server or of a file, or which price counts for a machine.

    The exit code is 1 when no price fits the machine, 2 when the file is wrong.
    """
    machine = {
        "gpu_model": model,
        "instance_type": instance_type,
        "region": region,
        "provider": provider,
        "purchase": purchase,
        "cluster": cluster,
        "node": node,
    }
    told = {name: value for name, value in machine.items() if value is not None}
    if not told:
        book = _local_book(check) if check is not None else _asked(server, "/api/prices", {})
        _show(book, checked=check, as_json=as_json, as_csv=as_csv)
        return
    at_s = _moment(at)
    if check is not None:
        choice = _local_choice(check, told, gpus, round(at_s * 1000))
    else:
        params = {**told, "at": f"{at_s:.3f}"} | ({"gpus": str(gpus)} if gpus is not None else {})
        choice = _asked(server, "/api/prices/choice", params)
    from trilens.cli.listing import is_printed

    if not is_printed(choice, as_json=as_json, as_csv=as_csv, lines=[choice]):
        from trilens.cli.price_text import show_choice

        show_choice(choice)
    if choice["per_hour"] is None:
        raise typer.Exit(1)


def _show(book: dict[str, Any], checked: Path | None, *, as_json: bool, as_csv: bool) -> None:
    from trilens.cli.listing import is_printed
    from trilens.cli.price_text import show_book

    if is_printed(book, as_json=as_json, as_csv=as_csv, lines=book["prices"]):
        return
    if checked is None:
        show_book(book)
        return
    own = [price for price in book["prices"] if not price["default"]]
    many = f"{len(own)} price{'' if len(own) == 1 else 's'} in {book['currency']}"
    typer.echo(f"{checked}: fine, {many}", err=True)
    show_book({**book, "prices": own})
    if shipped := len(book["prices"]) - len(own):
        typer.echo(f"{shipped} list prices that Trilens ships fill the gaps (--json has them)")
    for currency, count in _without_rate(book).items():
        prices = "1 price is" if count == 1 else f"{count} prices are"
        typer.echo(
            f"warning: no-exchange-rate: {prices} in {currency}, and a gap until a rate stands under "
            f"exchange: {{currency: {currency}, rate: RATE}}",
            err=True,
        )


def _without_rate(book: dict[str, Any]) -> Counter[str]:
    known = {book["currency"], *(rate["currency"] for rate in book["exchange"])}
    return Counter(price["currency"] for price in book["prices"] if price["currency"] not in known)


def _local_book(file: Path) -> dict[str, Any]:
    from dataclasses import asdict

    from trilens.ledger.prices.book import price_book
    from trilens.ledger.prices.view import book_answer

    return asdict(book_answer(price_book(file)))


def _local_choice(file: Path, told: dict[str, str], gpus: int | None, at_ms: int) -> dict[str, Any]:
    from dataclasses import asdict

    from trilens.ledger.prices.book import price_book
    from trilens.ledger.prices.view import choice_answer, described
    from trilens.model.errors import ConfigError
    from trilens.model.price import Purchase

    if told.get("purchase") not in (None, *Purchase):
        raise ConfigError(f"{told['purchase']!r} is not one of {', '.join(Purchase)}", where="--purchase")
    return asdict(choice_answer(price_book(file), described(told), gpus, at_ms))


def _asked(server: str | None, path: str, params: dict[str, str]) -> dict[str, Any]:
    from trilens.cli.client import Client

    with Client(server) as client:
        answer: dict[str, Any] = client.get(path, params)["data"]
    return answer


def _moment(at: str | None) -> float:
    from trilens.cli.times import read_moment

    return read_moment(at or "now", time.time())
