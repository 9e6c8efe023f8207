"""Xids as people read them: what it is first, then what to do, then what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from trilens.cli.paragraph import say
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment
from trilens.diagnose.xid.as_object import report_object
from trilens.model.verdict import TELL_FROM
from trilens.model.xid import Asks, Cordon, Fault

if TYPE_CHECKING:
    from trilens.diagnose.xid.report import XidReport

_WHOSE: Final = {
    Fault.APPLICATION: "mostly the program's fault",
    Fault.DRIVER: "mostly the fault of driver or firmware",
    Fault.HARDWARE: "mostly the hardware's fault",
    Fault.LINK: "mostly the fault of a link",
    Fault.UNCLEAR: "whose fault it is cannot be told from it",
    Fault.NONE: "nobody's fault: nothing is wrong",
}
_CORDON: Final = {
    Cordon.YES: "cordon it: no new work until it was rebooted or repaired",
    Cordon.UNTIL_RESET: "cordon it until the reset: Kubernetes cannot close a single GPU",
    Cordon.NO: "leave it in service",
}
_UNDECIDED: Final = "leave it in service until more is known"
_VENDORS: Final = {"nvidia": "NVIDIA's catalogue", "gpud": "gpud", "nvsentinel": "NVSentinel"}
_SHOWN: Final = 20  # episodes, and followers of one
_LINE: Final = 160


def show_code(told: dict[str, Any]) -> None:
    named = f"{_kind(told)} {told['code']}"
    typer.echo(f"{named}: {told['title']}" + (f" ({told['name']})" if told["name"] else ""))
    say(told["means"])
    if not told["known"] and told["kind"] == "xid":
        say(f"nearest are {', '.join(str(one) for one in told['nearest'])}", "near:")
    say(_WHOSE[Fault(told["fault"])], "who:")
    say(told["now"], "do:")
    say(_CORDON[Cordon(told["cordon"])] if told["asks"] != Asks.LOOK else _UNDECIDED, "node:")
    say(told["later"], "look:")
    _show_what_it_follows(told)
    if told["vendors"]:
        say("; ".join(_opinion(one) for one in told["vendors"]), "says:")
    if told["followed"]:
        who = told["followed"]["who"]
        chosen = f"{_VENDORS[who]} was followed" if who in _VENDORS else "none of them was followed"
        head = "they disagree; " if told["disagree"] else ""
        say(f"{head}{chosen}. {told['followed']['why']}", "why:")
    if told["sub_codes"]:
        typer.echo()
        _show_sub_codes(told["sub_codes"])


def show_report(report: XidReport) -> None:
    told = report_object(report)
    for at, episode in enumerate(told["episodes"][:_SHOWN]):
        if at:
            typer.echo()
        _show_episode(episode)
    if len(told["episodes"]) > _SHOWN:
        typer.echo(f"... and {len(told['episodes']) - _SHOWN} more (--json has them)")
    if not told["episodes"]:
        typer.echo(f"no Xid, SXid or NVLink fault in {told['lines']} lines")
    for missing in told["missing"]:
        say(f"{missing['what']}. To know it: {missing['remedy']}", "lack:")


def _show_episode(episode: dict[str, Any]) -> None:
    root = episode["root"]
    sure = episode["confidence"]
    head = "" if sure >= TELL_FROM or not episode["is_root_known"] else "cannot tell; perhaps "
    how = (
        f"{episode['fault']}, {sure:.0%} sure" if episode["is_root_known"] else "what it follows is not here"
    )
    typer.echo(f"{head}{_event(root)}: {root['title']} ({how})")
    say(_place(root), "at:")
    if root["process"] or root["pid"] is not None:
        say(f"{root['process'] or '?'}[{'?' if root['pid'] is None else root['pid']}]", "by:")
    if episode["pods"] or episode["workloads"]:
        say(", ".join(episode["workloads"] + [f"pod {one}" for one in episode["pods"]]), "hit:")
    _show_sub_code(root["sub_code"])
    say(root["line"][:_LINE], "line:")
    say(episode["now"], "do:")
    undecided = episode["asks"] == Asks.LOOK
    say(_UNDECIDED if undecided else _CORDON[Cordon(episode["cordon"])], "node:")
    say(episode["later"], "look:")
    if episode["follows"]:
        shown = "; ".join(_follower(one, root) for one in episode["follows"][:_SHOWN])
        more = len(episode["follows"]) - _SHOWN
        say(shown + (f"; and {more} more" if more > 0 else ""), "then:")


def _show_sub_code(sub: dict[str, Any] | None) -> None:
    if sub is None:
        return
    status = sub["status"] or "cut off"
    if not sub["errors"]:
        say(f"{sub['unit']}, status {status}: not documented", "unit:")
    for one in sub["errors"]:
        effects = [f"here: {', '.join(one['local'])}"] if one["local"] else []
        effects += [f"on others: {', '.join(one['remote'])}"] if one["remote"] else []
        reason = "" if sub["reason"] is None else f", reason {sub['reason']}"
        what = f"{sub['unit']} ({one['about']}), status {status}{reason}: {one['severity']}, by {one['by']}"
        say("; ".join([what, *effects]), "unit:")


def _show_what_it_follows(told: dict[str, Any]) -> None:
    if told["follows_any"]:
        say("it always follows another, and is never the root", "after")
    elif told["follows"] or told["follows_sxids"]:
        before = [str(one) for one in told["follows"]] + (["an SXid"] if told["follows_sxids"] else [])
        say(f"within minutes of {', '.join(before)} it only follows", "after")


def _show_sub_codes(errors: list[dict[str, Any]]) -> None:
    rows = [
        [
            one["unit"],
            one["status"],
            "" if one["reason"] is None else str(one["reason"]),
            one["severity"],
            one["by"],
            "what 154 says" if one["asks"] == Asks.LOOK else one["asks"],
            ", ".join(one["local"]) or "nothing",
            ", ".join(one["remote"]) or "nothing",
        ]
        for one in errors
    ]
    titles = ["unit", "status", "reason", "severity", "by", "asks for", "follows here", "on others"]
    print_table(titles, rows, may_go=["by", "on others"], folds=["follows here", "on others"])


def _event(seen: dict[str, Any]) -> str:
    return f"{_kind(seen)} {seen['code']}" if seen["code"] is not None else "NVLink"


def _kind(told: dict[str, Any]) -> str:
    return {"xid": "Xid", "sxid": "SXid", "nvlink": "NVLink"}[told["kind"]]


def _place(seen: dict[str, Any]) -> str:
    named = "GPU"
    if seen["kind"] != "xid":
        named = "link" if seen["switch"] is None else f"switch {seen['switch']}"
    parts = [f"{named} {seen['pci'] or '?'}" + (f" ({seen['uuid']})" if seen["uuid"] else "")]
    parts += [f"MIG instance {seen['gpu_instance']}"] if seen["gpu_instance"] is not None else []
    parts += [f"link {seen['link']}"] if seen["link"] is not None else []
    parts += [f"board {seen['serial']}"] if seen["serial"] else []
    parts += [f"of {seen['node']}"] if seen["node"] else []
    parts += [show_moment(seen["t_ms"] / 1000)] if seen["t_ms"] is not None else []
    where = seen["file"] if seen["line_number"] is None else f"{seen['file']}:{seen['line_number']}"
    told = f"{seen['times']} times, first in {where}" if seen["times"] > 1 else where
    return ", ".join([*parts, told])


def _follower(seen: dict[str, Any], root: dict[str, Any]) -> str:
    times = f", {seen['times']} times" if seen["times"] > 1 else ""
    where = f" on {seen['pci']}" if seen["pci"] and seen["pci"] != root["pci"] else ""
    told = seen["pid"] is not None and seen["pid"] != root["pid"]
    whom = f" told to {seen['process'] or '?'}[{seen['pid']}]" if told else ""
    return f"{_event(seen)} ({seen['title']}){where}{whom}{times}"


def _opinion(one: dict[str, Any]) -> str:
    first, second = one["first"], one["second"]
    if one["vendor"] == "nvidia":
        said = f"{first}, later {second}" if first != "none" else "no action"
    else:
        said = f"{first}, {second}" if second != "none" else first
    return f"{_VENDORS[one['vendor']]}: {said}"
