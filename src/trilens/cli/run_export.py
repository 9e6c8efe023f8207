"""`trilens runs export`: a run's past as OTLP traces, to a collector."""

import gzip
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from trilens.cli.completion import run_names
from trilens.cli.options import Server

if TYPE_CHECKING:
    import httpx


def export(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="An id or its beginning, a name, or EXPERIMENT/NAME.",
            autocompletion=run_names,
        ),
    ],
    otlp: Annotated[
        str, typer.Option(metavar="URL", help="The collector, without /v1/traces: http://collector:4318.")
    ],
    first: Annotated[int | None, typer.Option(metavar="N", min=0, help="From this step on.")] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=0, help="Until this step.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Sent to the collector; may be repeated.")
    ] = None,
    server: Server = None,
) -> None:
    """Send a run's steps and checkpoints to a collector as OTLP traces.

    Ids are made of the records: what is sent twice is the same twice.
    """
    import httpx

    from trilens.cli.client import Client
    from trilens.cli.progress import progress
    from trilens.cli.run_naming import run_meant
    from trilens.model.errors import RequestError

    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    for one in header or []:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise RequestError(f"--header {one!r} is not NAME=VALUE")
        headers[name] = value
    bounds = {"first": first, "last": last}
    params = {name: str(step) for name, step in bounds.items() if step is not None}
    sent = 0
    with (
        Client(server) as client,
        httpx.Client(headers=headers, timeout=60) as collector,
        progress(run, None, "pages") as advance,
    ):
        pages = 0
        path = f"/api/runs/{quote(run_meant(client, run))}/traces"
        while True:
            page = client.fetch(path, params)
            if page.content:
                _post(collector, f"{otlp.rstrip('/')}/v1/traces", page.content)
                sent += len(page.content)
            pages += 1
            advance(sent, pages)
            next_step = page.headers.get("Trilens-Next-Step")
            if next_step is None:
                break
            params["first"] = next_step
    typer.echo(f"{sent:,} bytes sent" if sent else "nothing to send", err=True)


def _post(collector: "httpx.Client", url: str, content: bytes) -> None:
    import httpx

    from trilens.model.errors import ServerError

    try:
        answer = collector.post(url, content=gzip.compress(content, 1))
    except httpx.HTTPError as e:
        raise ServerError(f"no answer from {url}: {e or type(e).__name__}", hint="is it a collector?") from e
    if answer.status_code >= 300:
        raise ServerError(f"{url} answered HTTP {answer.status_code}: {answer.text[:200].strip()}")
