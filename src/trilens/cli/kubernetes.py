"""`trilens kubernetes rbac`: the roles that watching a cluster needs."""

from typing import Annotated

import typer

app = typer.Typer(help="Kubernetes clusters.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Kubernetes clusters."""


@app.command()
def rbac(
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Only this one; may be repeated."),
    ] = None,
    service_account: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Who is given the permissions.")
    ] = "trilens/trilens",
    leave_out: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Not this kind; may be repeated.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Also this kind, watched only on request; may be repeated."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMESPACE/NAME", help="Also to read this one, for a monitor; may be repeated."),
    ] = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="Print what trilens why reads besides, logs among it, and not what watching needs.",
        ),
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Print what trilens fix needs besides, and not what watching needs.")
    ] = False,
) -> None:
    """Print the least that Trilens must be allowed, for kubectl apply."""
    from trilens.collect.kubernetes.catalogue import choose
    from trilens.collect.kubernetes.rbac import (
        SecretName,
        as_yaml,
        fix_manifests,
        manifests,
        why_manifests,
    )
    from trilens.diagnose.cure.restarts import restartable

    home, name = _namespaced("--service-account", service_account)
    secrets = [SecretName(*_namespaced("--secret", written)) for written in secret or ()]
    kinds = choose(leave_out or (), add or ())
    if fix:
        ours = [kind for kind in kinds if restartable(str(kind.group_kind))]
        typer.echo(as_yaml(fix_manifests(ours, namespaces or (), name=name, home=home)), nl=False)
        return
    if why:
        from trilens.serve.cases.kinds import ONLY_ASKED

        typer.echo(as_yaml(why_manifests(ONLY_ASKED, namespaces or (), name=name, home=home)), nl=False)
        return
    documents = manifests(kinds, namespaces or (), secrets=secrets, name=name, home=home)
    typer.echo(as_yaml(documents), nl=False)


def _namespaced(option: str, written: str) -> tuple[str, str]:
    from trilens.model.errors import ConfigError

    namespace, _, name = written.partition("/")
    if not namespace or not name or "/" in name:
        raise ConfigError(f"{written!r} names nothing in a namespace", hint=f"write {option} NAMESPACE/NAME")
    return namespace, name
