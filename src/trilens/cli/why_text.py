"""Verdicts as people read them: the cause first, what to do, then the way to it and what is missing."""

from __future__ import annotations

from typing import Any, Final

import typer

from trilens.cli.paragraph import say
from trilens.cli.times import show_moment

_FACTS: Final = 6  # of one step
_MISSING: Final = 8
_SURE: Final = ((0.95, "certain"), (0.8, "sure"), (0.65, "likely"), (0.5, "rather likely"))


def show_why(answer: dict[str, Any]) -> None:
    """Beside an answer, what could not be answered is only named."""
    verdicts = answer["verdicts"]
    told = [one for one in verdicts if one["can_tell"]] or verdicts
    typer.echo(f"{_name(answer['subject'])}, {_span(answer)}")
    for verdict in told:
        typer.echo()
        _show_verdict(verdict)
    if told:
        typer.echo("\nThe way to it:")
        _show_way(told)
    if beside := [one for one in verdicts if one not in told]:
        typer.echo("\nBesides, without an answer (--json has the way to it):")
        for one in beside:
            named = "" if _has_no_cause(one) else f" (perhaps {one['cause']}, {one['confidence']:.0%})"
            say(one["text"] + named, "-")
    missing = _missing(answer)
    if missing:
        typer.echo("\nNot known:")
        for one in missing[:_MISSING]:
            say(f"{one['what']}. To know it: {one['remedy']}", "-")
        if len(missing) > _MISSING:
            say(f"and {len(missing) - _MISSING} more (--json has them)")


def show_open(found: list[dict[str, Any]], *, more: int) -> None:
    """A paragraph for each incident."""
    for number, one in enumerate(found):
        if number:
            typer.echo()
        incident, answer = one["incident"], one["why"]
        typer.echo(f"{incident['severity']:8}  {incident['id']}  since {_moment(incident['onset_ms'])}")
        say(incident["title"])
        if answer is None:
            say(one["error"] or "it names neither a workload nor a node that could be looked at", "why:")
            continue
        verdict = answer["verdicts"][0]
        say(f"{verdict['text']}  [{_head(verdict)}]", "why:")
        _show_fix(verdict)
        say(f"trilens why {incident['id']}", "more:")  # in its time, which may be hours ago
    if more:
        typer.echo(f"\nand {more} more: trilens incidents")


def _show_verdict(verdict: dict[str, Any]) -> None:
    typer.echo(_head(verdict))
    say(verdict["text"])
    if where := _where(verdict["where"]):
        say(where, "at:")
    if verdict["since_ms"] is not None:
        say(_moment(verdict["since_ms"]), "from:")
    _show_fix(verdict)


def _show_fix(verdict: dict[str, Any]) -> None:
    fix = verdict["fix"]
    for number, step in enumerate(fix, 1):
        say(f"{number}. {step}" if len(fix) > 1 else step, "do:" if number == 1 else "")


def _show_way(verdicts: list[dict[str, Any]]) -> None:
    """Each question and each fact once: the ways to several verdicts begin together."""
    asked, seen = set(), set()
    for verdict in verdicts:
        for step in verdict["way"]:
            key = (step["tree"], step["question"], step["answer"])
            if key in asked:
                continue
            asked.add(key)
            typer.echo(f"    {step['text']}  -> {step['answer']}")
            told = [_fact(fact) for fact in step["facts"]]
            new = [fact for fact in dict.fromkeys(told) if fact not in seen]
            seen.update(new)
            for fact in new[:_FACTS]:
                say(fact)
            if len(new) > _FACTS:
                say(f"and {len(new) - _FACTS} more (--json has them)")


def _fact(fact: dict[str, Any]) -> str:
    when = f", {_moment(fact['t_ms'])}" if fact["t_ms"] is not None else ""
    return f"{fact['text']}  [{fact['source']}{when}]"


def _head(verdict: dict[str, Any]) -> str:
    named = f"{verdict['cause']} ({verdict['layer']})"
    confidence = verdict["confidence"]
    if _has_no_cause(verdict):
        return f"cannot tell ({verdict['layer']})"
    if not verdict["can_tell"]:
        return f"cannot tell; perhaps {named}, {confidence:.0%}"
    word = next(word for least, word in _SURE if confidence >= least)
    return f"{named}, {word}: {confidence:.0%}"


def _has_no_cause(verdict: dict[str, Any]) -> bool:
    """Ends of trees that are called so name none."""
    return str(verdict["cause"]).endswith("cannot-tell")


def _where(where: dict[str, Any]) -> str:
    workload, pod, node, gpu, rank = (where[name] for name in ("workload", "pod", "node", "gpu", "rank"))
    number = where["gpu_number"]
    parts = [
        f"rank {rank}" if rank is not None else "",
        f"pod {where['namespace']}/{pod}" if pod else "",
        f"workload {where['namespace']}/{workload}" if workload and not pod else "",
        f"node {node}" if node else "",
        f"GPU {number} ({gpu})" if gpu and number else f"GPU {gpu}" if gpu else "",
    ]
    return ", ".join(filter(None, parts))


def _missing(answer: dict[str, Any]) -> list[dict[str, str]]:
    """What verdicts lack first, each once."""
    every = [*(one for verdict in answer["verdicts"] for one in verdict["missing"]), *answer["missing"]]
    return list({(one["what"], one["remedy"]): one for one in every}.values())


def _name(subject: dict[str, str]) -> str:
    inside = f" in {subject['namespace']}" if subject["namespace"] else ""
    cluster = f" ({subject['cluster']})" if subject["cluster"] else ""
    return f"{subject['kind']} {subject['name']}{inside}{cluster}"


def _span(answer: dict[str, Any]) -> str:
    return f"{_moment(answer['from_ms'])} to {_moment(answer['to_ms'])}"


def _moment(t_ms: int) -> str:
    return show_moment(t_ms // 1000)
