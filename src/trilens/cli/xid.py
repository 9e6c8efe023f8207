"""`trilens xid`: what an Xid means, and which one in a kernel log is the root."""

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trilens.cli.options import Server

if TYPE_CHECKING:
    from trilens.diagnose.xid.report import XidReport

_CODE: Final = re.compile(r"(?P<kind>s?xid)?[\s:#-]*(?P<code>\d{1,9})", re.IGNORECASE)


def xid(
    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE|LINE", help="An Xid or SXid, or a whole line of the kernel's log."),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Read a kernel log, or a folder of them; - is stdin."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read what a bundle of trilens bundle has of faults.")
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose log it is, where its lines do not say.")
    ] = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Explain an Xid: what it means, whose fault it is, what to do, and whether to cordon the node.

    From a kernel log: which GPU, process, pod and workload, and which Xid is the root and which only follow.
    """
    from trilens.model.errors import ConfigError

    given = [code is not None, bool(log), bundle is not None].count(True)
    if given != 1:
        raise ConfigError(
            "name a code, or --log FILE, or --bundle FILE" + (", one of them" if given else ""),
            hint="trilens xid 79; dmesg -T | trilens xid --log -",
        )
    if code is not None and (number := _CODE.fullmatch(code.strip())):
        _show_code(int(number["code"]), (number["kind"] or "").lower(), as_json=as_json)
        return
    if code is not None:
        report = _of_line(code, node or "")
    elif bundle is not None:
        report = _of_bundle(bundle)
    else:
        report = _of_files(log or [], node or "", server)
    if as_json:
        from trilens.diagnose.xid.as_object import report_object

        typer.echo(json.dumps(report_object(report), ensure_ascii=False))
    else:
        from trilens.cli.xid_text import show_report

        show_report(report)


def _show_code(code: int, kind: str, *, as_json: bool) -> None:
    from trilens.diagnose.xid.as_object import code_object
    from trilens.diagnose.xid.sxid import first_sxid

    told = code_object(code, is_sxid=kind == "sxid" or (not kind and code >= first_sxid()))
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        from trilens.cli.xid_text import show_code

        show_code(told)


def _of_line(line: str, node: str) -> "XidReport":
    from trilens.diagnose.xid.kernel_log import KernelText
    from trilens.diagnose.xid.report import judge_kernel_logs
    from trilens.model.errors import ConfigError
    from trilens.model.fault_lines import read_fault

    if read_fault(line) is None:
        raise ConfigError(f"neither a code nor a line with an Xid: {line!r}", hint="trilens xid 79")
    return judge_kernel_logs([KernelText("line", [line], node)], _now_ms())


def _of_files(paths: list[str], node: str, server: str | None) -> "XidReport":
    from trilens.cli.log_files import LogFiles
    from trilens.diagnose.xid.kernel_log import KernelText
    from trilens.diagnose.xid.report import judge_kernel_logs

    files = LogFiles(paths)
    texts = (KernelText(source.name, source.lines, node) for source in files.sources())
    report = judge_kernel_logs(texts, _now_ms(), lambda span: _asked(server, node, span))
    report.missing.extend(files.missing)
    return report


def _of_bundle(file: Path) -> "XidReport":
    from trilens.diagnose.bundle import read_bundle
    from trilens.diagnose.xid.report import judge_case

    return judge_case(read_bundle(file))


def _asked(server: str | None, node: str, span: tuple[int, int] | None) -> Any:
    """What the server knows of faults in that time; of the last day where the log has no time of day."""
    from trilens.cli.client import Client
    from trilens.diagnose.xid.whose import read_answers
    from trilens.model.errors import ServerError
    from trilens.model.verdict import Missing

    from_ms, to_ms = span or (_now_ms() - 86_400_000, _now_ms())
    params = {"from": f"{from_ms / 1000:.3f}", "to": f"{to_ms / 1000:.3f}", "limit": "10000"}
    try:
        with Client(server) as client:
            answer = client.get("/api/events", params | ({"node": node} if node else {}))
    except ServerError as e:
        remedy = "trilens xid --log FILE --server URL, or --bundle FILE"
        return [], [Missing(f"which pods and workloads were hit: {e.message}", remedy)]
    return read_answers(answer["data"]), []


def _now_ms() -> int:
    return int(time.time() * 1000)
