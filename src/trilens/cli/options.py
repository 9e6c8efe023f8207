"""Options that several commands have, each in one wording."""

from typing import Annotated, TypeAlias

import typer

from trilens.model.finding import Severity

Server: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The server [default: TRILENS_SERVER, or http://127.0.0.1:9333]."),
]
At: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="The moment to ask about [default: now].")
]
Since: TypeAlias = Annotated[str, typer.Option(metavar="TIME", help="The first moment to ask about.")]
AtMost: TypeAlias = Annotated[int, typer.Option(metavar="N", min=1, help="The latest so many.")]
Namespace: TypeAlias = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Only of this namespace.")
]
AllNamespaces: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--all-namespaces",
        "-A",
        help="Of all namespaces, which is the default unless called as kubectl trilens.",
    ),
]
OfSeverity: TypeAlias = Annotated[
    Severity | None, typer.Option(metavar="SEVERITY", help="Only of this one: critical, warning or info.")
]
AsList: TypeAlias = Annotated[bool, typer.Option("--json", help="Print a list of objects.")]
AsCsv: TypeAlias = Annotated[bool, typer.Option("--csv", help="Print a line for each, as CSV.")]
