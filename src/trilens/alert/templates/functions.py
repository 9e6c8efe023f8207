"""Every function that a template may call: Go's own, and Prometheus's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlsplit

import re2

from trilens.alert.templates import builtins, humanize
from trilens.alert.templates.call_error import CallError
from trilens.alert.templates.lexer import quoted
from trilens.alert.templates.sprintf import sprint, sprintf, sprintln
from trilens.alert.templates.values import QueryAnswer, Sample, StringMap
from trilens.model.errors import TrilensError
from trilens.settings.duration import duration_ms

Query: TypeAlias = Callable[[str], Sequence[tuple[dict[str, str], float]]]
"""What a PromQL query gives at the moment of the evaluation. Raises TrilensError."""

ANYTHING: Final = "value"  # also what is not there
ANY: Final = "interface {}"
STRING: Final = "string"
SAMPLE: Final = "*template.sample"
ANSWER: Final = "template.queryResult"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What functions know beside their arguments."""

    query: Query
    external_url: str = ""
    at_s: float = 0.0


class Function(NamedTuple):
    """`params` are Go's types; the last one stands for all that follow where it is `variadic`."""

    params: tuple[str, ...]
    call: Callable[..., Any]
    variadic: bool = False
    surrounded: bool = False  # takes the surroundings first


def _query(around: Surroundings, text: str) -> QueryAnswer:
    try:
        found = around.query(text)
    except TrilensError as e:
        raise CallError(str(e)) from e
    return QueryAnswer(Sample(StringMap(labels), value) for labels, value in found)


def _first(answer: QueryAnswer) -> Sample:
    if not answer:
        raise CallError("first() called on vector with no elements")
    return answer[0]


def _sorted_by_label(label: str, answer: QueryAnswer | None) -> QueryAnswer:
    return QueryAnswer(sorted(answer or (), key=lambda sample: sample.labels.get(label, "")))


def _label(name: str, sample: Sample | None) -> str:
    return _there(sample).labels.get(name, "")


def _value(sample: Sample | None) -> float:
    return _there(sample).value


def _there(sample: Sample | None) -> Sample:
    if sample is None:
        raise CallError("runtime error: invalid memory address or nil pointer dereference")
    return sample


def _pattern(text: str) -> Any:
    try:
        return re2.compile(text, _QUIET)
    except re2.error as e:
        said = e.args[0].decode(errors="replace") if isinstance(e.args[0], bytes) else str(e)
        what, _, part = said.partition(": ")
        raise CallError(f"error parsing regexp: {_GO_SAYS.get(what, what)}: `{part}`") from e


_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_GO_SAYS: Final = {  # of the same fault
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
}


def _replaced(pattern: str, replacement: str, text: str) -> str:
    found = _pattern(pattern)
    named = found.groupindex

    def filled(match: Any) -> str:
        def group(reference: re.Match[str]) -> str:
            if reference[0] == "$$":
                return "$"
            name = reference[1] or reference[2]
            place = int(name) if name.isdecimal() else named.get(name, -1)
            return (match.group(place) or "") if 0 <= place <= found.groups else ""

        return _REFERENCE.sub(group, replacement)

    replaced = found.sub(filled, text)
    assert isinstance(replaced, str)
    return replaced


_REFERENCE: Final = re.compile(r"\$\$|\$\{(\w+)\}|\$(\w+)")


def _title(text: str) -> str:
    return re.sub(r"(?:^|(?<=\W))[^\W\d_]", lambda found: found[0].upper(), text)


def _split_port(host_port: str) -> tuple[str, str] | None:
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([^:\[\]]*)", host_port)
    return (found[1] if found[1] is not None else found[2], found[3]) if found is not None else None


def _without_port(host_port: str) -> str:
    parts = _split_port(host_port)
    return host_port if parts is None else parts[0]


def _without_domain(host_port: str) -> str:
    host, port = _split_port(host_port) or (host_port, "")
    try:
        ip_address(host)
    except ValueError:
        name = host.split(".")[0]
        return f"{name}:{port}" if port else name
    return host_port


def _parsed_duration(text: str) -> float:
    try:
        return duration_ms(text) / 1000
    except ValueError as e:
        what = "empty duration string" if not text else f"not a valid duration string: {quoted(text)}"
        raise CallError(what) from e


def _duration(given: Any) -> str:
    """As Go writes a time.Duration: 1h30m0s."""
    nanoseconds = int(humanize.to_float(given) * 1e9)
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 1000), ("ms", 1_000_000)):
        if rest < size * 1000:
            return f"{sign}{rest / size:.9f}".rstrip("0").rstrip(".") + unit
    minutes, seconds = divmod(rest, 60_000_000_000)
    text = f"{seconds / 1e9:.9f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _link(tab: int) -> Callable[[str], str]:
    return lambda expr: f"/graph?g0.expr={quote_plus(expr, safe='~')}&g0.tab={tab}"


def _anything(count: int) -> tuple[str, ...]:
    return (ANYTHING,) * count


FUNCTIONS: Final[dict[str, Function]] = {
    "and": Function((ANYTHING, ANYTHING), lambda *_: None, variadic=True),  # the evaluator does these two
    "or": Function((ANYTHING, ANYTHING), lambda *_: None, variadic=True),
    "not": Function(_anything(1), builtins.negate),
    "len": Function(_anything(1), builtins.length),
    "index": Function(_anything(2), builtins.index, variadic=True),
    "slice": Function(_anything(2), builtins.cut, variadic=True),
    "eq": Function(_anything(2), builtins.equal, variadic=True),
    "ne": Function(_anything(2), builtins.not_equal),
    "lt": Function(_anything(2), builtins.less),
    "le": Function(_anything(2), builtins.less_or_equal),
    "gt": Function(_anything(2), builtins.greater),
    "ge": Function(_anything(2), builtins.greater_or_equal),
    "call": Function(_anything(2), builtins.call, variadic=True),
    "html": Function((ANY,), builtins.html, variadic=True),
    "js": Function((ANY,), builtins.javascript, variadic=True),
    "urlquery": Function((ANY,), builtins.url_query, variadic=True),
    "print": Function((ANY,), lambda *args: sprint(args), variadic=True),
    "println": Function((ANY,), lambda *args: sprintln(args), variadic=True),
    "printf": Function((STRING, ANY), lambda text, *args: sprintf(text, args), variadic=True),
    "query": Function((STRING,), _query, surrounded=True),
    "first": Function((ANSWER,), _first),
    "label": Function((STRING, SAMPLE), _label),
    "value": Function((SAMPLE,), _value),
    "strvalue": Function((SAMPLE,), lambda sample: _label("__value__", sample)),
    "sortByLabel": Function((STRING, ANSWER), _sorted_by_label),
    "args": Function((ANY,), lambda *args: {f"arg{k}": arg for k, arg in enumerate(args)}, variadic=True),
    "humanize": Function((ANY,), humanize.humanize),
    "humanize1024": Function((ANY,), humanize.humanize_1024),
    "humanizeDuration": Function((ANY,), humanize.humanize_duration),
    "humanizePercentage": Function((ANY,), humanize.humanize_percentage),
    "humanizeTimestamp": Function((ANY,), humanize.humanize_timestamp),
    "toTime": Function((ANY,), humanize.to_time),
    "toDuration": Function((ANY,), _duration),
    "now": Function((), lambda around: around.at_s, surrounded=True),
    "parseDuration": Function((STRING,), _parsed_duration),
    "title": Function((STRING,), _title),
    "toUpper": Function((STRING,), str.upper),
    "toLower": Function((STRING,), str.lower),
    "match": Function((STRING, STRING), lambda pattern, text: _pattern(pattern).search(text) is not None),
    "reReplaceAll": Function((STRING, STRING, STRING), _replaced),
    "safeHtml": Function((STRING,), lambda text: text),
    "stripPort": Function((STRING,), _without_port),
    "stripDomain": Function((STRING,), _without_domain),
    "urlQueryEscape": Function((STRING,), lambda text: quote_plus(text, safe="~")),
    "graphLink": Function((STRING,), _link(0)),
    "tableLink": Function((STRING,), _link(1)),
    "externalURL": Function((), lambda around: around.external_url, surrounded=True),
    "pathPrefix": Function((), lambda around: urlsplit(around.external_url).path, surrounded=True),
}

CHANGING: Final = frozenset({"query", "now"})
"""What may give something else at another moment though the alert is the same."""
