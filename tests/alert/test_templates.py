"""Templates expanded here and by promtool: the same text, and the same words for what goes wrong."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from servers import require_server
from trilens.alert.templates.expand import External, alert_template, expand
from trilens.model.errors import TemplateError
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource

if TYPE_CHECKING:
    from pathlib import Path

LABELS = {"__name__": "x", "instance": "h.example.com:9100", "job": 'a"b', "n": "5"}
VALUE = 1_234_567.5
EXTERNAL = External("http://ex.org:9/p", (("cl", "eu"),))
AT_MS = 300_000

TEMPLATES = r"""
{{ $labels.instance }}|{{ .Labels.job }}|{{ $labels.none }}|{{ $value }}|{{ .Value }}|{{ $externalLabels.cl }}|{{ $externalURL }}
{{ $labels }} {{ args 1 "x" 2.5 true }} {{ range $k, $v := $labels }}{{ $k }}={{ $v }},{{ end }}
a {{- /* c */ -}} b {{- " c " -}} d {{/* a comment */}} e
{{ 1000000.0 }} {{ 100000.0 }} {{ 1e20 }} {{ 0.0001 }} {{ 0.00001 }} {{ 12345678.9 }} {{ 1e3 }} {{ 1.0 }} {{ -3.5 }} {{ +4 }} {{ true }} {{ 'a' }} {{ `raw` }} {{ 0x1F }} {{ 017 }} {{ 0b101 }} {{ 1_000 }}
{{ printf "%g %v %.2f %d %s %q %5.1f|%-8s|%08.3f %t %x %T" 1e6 1e6 3.14159 5 "a" "b" 2.25 "x" 3.5 true 255 5.5 }}
{{ printf "%6.2f|%+d|%x|%X|%c|%U|%e|%5t|%v|%q|%s|%d" 1.5 5 "hi" 255 65 65 12345.678 true (args 1) 65 (args "a" 1) (args "a" 1) }}
{{ printf "%5d|%-5d|%05d|%.3g|%.10g|%g|%G|%v|%#v|%+v|%%|%*d" 42 42 42 1234.5678 1234.5678 100000.0 1e-7 "s" "s" 1.5 5 42 }}
{{ printf "%[2]d %[1]d" 1 2 }} {{ printf "%.2s|%10.3f|%o|%b" "abc" 3.14159 8 5 }} {{ printf "%v %s" nil true }}
{{ printf "%d" 1.5 }} {{ printf "%s" 1 }} {{ printf "%d" }} {{ printf "x" 1 2 }} {{ printf "%z" 1 }} {{ printf "%s" $value }} {{ printf "%" }}
{{ print 1 2 "a" "b" 3 }} {{ println "a" 1 }}{{ html "<a&\">" }} {{ js "<it's>\n" }} {{ urlquery "a b&c" 5 }}
{{ if and (gt $value 1.0) (lt $value 2e9) }}ok{{ end }}{{ if not $labels.none }} none{{ end }}
{{ if and 1 0 }}a{{ else if or 0 "" }}b{{ else }}c{{ end }} {{ ne 1 2 }} {{ le 1 2 }} {{ ge 2 2 }} {{ eq "a" "b" "a" }} {{ and 1 "x" }} {{ or 0 "" }}|
{{ with $labels.none }}a{{ else }}b{{ end }} {{ with $x := 5 }}{{ $x }}{{ . }}{{ end }}
{{ $s := "a" }}{{ if true }}{{ $s = "b" }}{{ $s := "c" }}{{ end }}{{ $s }}
{{ range query "y" | sortByLabel "z" }}{{ .Labels.z }}={{ .Value }};{{ end }}{{ range query "none" }}x{{ else }}empty{{ end }}
{{ range $i, $s := query "y" | sortByLabel "z" }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ $s.Labels.z }}{{ end }}{{ range query "y" }}{{ break }}{{ end }}
{{ label "instance" (query "x" | first) }} {{ query "x" | first | value }} {{ query "x" | first | strvalue }} {{ first (query "x") }}
{{ define "d" }}[{{ . }}]{{ end }}{{ template "d" 5 }}{{ template "d" args 1 "b" }}{{ block "e" 6 }}<{{ . }}>{{ end }}{{ template "f" }}{{ define "f" }}{{ .Labels }}{{ end }}
{{ reReplaceAll "(.*):.*" "$1" $labels.instance }} {{ reReplaceAll "(?P<a>h)" "${a}x$$1$9" "hh" }} {{ reReplaceAll "x*" "-" "abc" }} {{ match "^h.*" $labels.instance }}
{{ stripPort $labels.instance }} {{ stripDomain $labels.instance }} {{ stripPort "[::1]:80" }} {{ stripDomain "10.0.0.1:9" }} {{ stripPort "noport" }}
{{ title "hello wORLD foo_bar x-y" }} {{ toUpper "a" }} {{ toLower "ÀB" }} {{ safeHtml "<b>" }} {{ $labels.job | title }}
{{ humanize 1234567.0 }} {{ humanize 0.00012 }} {{ humanize "12" }} {{ humanize -5 }} {{ humanize 0 }} {{ humanize 999.99 }} {{ humanize 999999 }} {{ humanize 1e30 }} {{ humanize "-Inf" }} {{ humanize "NaN" }}
{{ humanize1024 123456 }} {{ humanize1024 1 }} {{ humanize1024 1023.99 }} {{ humanize1024 -2048 }} {{ humanizePercentage 0.12345 }} {{ humanizePercentage 1e7 }}
{{ humanizeDuration 123456.789 }} {{ humanizeDuration 0.0123 }} {{ humanizeDuration 59.99999 }} {{ humanizeDuration 3600 }} {{ humanizeDuration -90061 }} {{ humanizeDuration 1e-9 }} {{ humanizeDuration 0 }} {{ humanizeDuration "Inf" }}
{{ humanizeTimestamp 1435065584.128 }} {{ humanizeTimestamp 0 }} {{ humanizeTimestamp -1.5 }} {{ toTime 1700000000 }} {{ (toTime 1700000000).Year }} {{ (toTime 0).Month }} {{ (toTime $value).Format "2006-01-02T15:04:05Z07:00 Mon Jan" }} {{ (toTime 1700000000).Format "Jan 2 3:04:05 pm | _2/1/06 PM Monday" }}
{{ parseDuration "1h30m" }} {{ tableLink "up > 1" }} {{ graphLink "up" }} {{ len $labels }} {{ len "é" }} {{ index $labels "job" }} {{ slice "abcdef" 1 3 }} {{ (args 1 "two").arg1 }} {{ (args 1).arg9 }}
{{ $value | printf "%.2f" }} {{ .Value | humanize }} {{ ($labels.instance) | toUpper }} {{ "a" | printf "%s-%s" "b" }} {{ print "a" | toUpper | printf "%q" }}
{{ gt $value 5 }}
{{ eq 1 1.0 }}
{{ eq 1 }}
{{ lt true false }}
{{ humanize "abc" }}
{{ humanize (args 1) }}
{{ humanizeTimestamp 1e30 }}
{{ toTime "NaN" }}
{{ parseDuration "x" }}
{{ query "none" | first }}
{{ first $labels }}
{{ value nil }}
{{ toUpper nil }}
{{ toUpper 5 }}
{{ toUpper "a" "b" }}
{{ match "(" "a" }}
{{ template "nope" }}
{{ define "d" }}{{ toUpper . }}{{ end }}{{ template "d" 5 }}
{{ $labels.instance.foo }}
{{ $labels.job 5 }}
{{ index $labels 1 }}
{{ index (query "y") 7 }}
{{ slice "abc" 2 1 }}
{{ range 5 }}x{{ end }}
{{ len 5 }}
{{ call 5 }}
{{ nil }}
{{ 5 6 }}
{{ $x = 1 }}
{{ undefinedfn 1 }}
{{ if }}x{{ end }}
{{ $nope }}
{{ "unterminated }}
{{ "a\qb" }}
{{ end }}
{{ else }}
{{ if true }}
{{ 5 | 6 }}
{{ (1 }}
{{ break }}
{{ define "a" }}
{{ $a, $b := 5 }}
{{ /* x }}
{{ 12abc }}
{{ 08 }}
{{ 99999999999999999999 }}
{{ .a#b }}
{{ 5.foo }}
{{ "x".foo }}
{{ | }}
{{ template x }}
{{ ☃ }}
""".strip().splitlines()  # noqa: E501


def _query() -> MemorySource:
    source = MemorySource()
    moments = range(0, 600_001, 60_000)
    source.add(LABELS, [(t, VALUE) for t in moments])
    for z in "01":
        source.add({"__name__": "y", "z": z}, [(t, 1 + int(z)) for t in moments])
    return source


SOURCE = _query()


def ask(text: str) -> list[tuple[dict[str, str], float]]:
    answer = Engine(SOURCE).instant(text, AT_MS, QueryGuard())
    return [(answer.labels.labels(row), float(answer.values[row, 0])) for row in range(len(answer.labels))]


def expanded(number: int, text: str) -> str:
    try:
        alert_template(f"T{number}", text)
    except TemplateError as e:
        return f"refused: {e}"
    return expand(text, LABELS, VALUE, EXTERNAL, ask, alert=f"T{number}", at_s=AT_MS / 1000)


@pytest.fixture(scope="module")
def by_promtool(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What it says to each template, all in two runs: it refuses a file with a template that is none."""
    promtool, folder = require_server("promtool"), tmp_path_factory.mktemp("templates")
    found: dict[int, str] = {}
    _write(folder, list(range(len(TEMPLATES))))
    checked = subprocess.run(
        [promtool, "check", "rules", str(folder / "r.yml")], capture_output=True, text=True
    )
    for number, error in re.findall(r'"T(\d+)": annotation "a": (.*)', checked.stdout + checked.stderr):
        found[int(number)] = f"refused: {error}"
    _write(folder, [n for n in range(len(TEMPLATES)) if n not in found])
    tested = subprocess.run(
        [promtool, "test", "rules", str(folder / "t.yml")], capture_output=True, text=True
    )
    for block in re.split(r"\n\s*alertname: ", tested.stdout + tested.stderr)[1:]:
        number = re.match(r"T(\d+)", block)
        text = re.search(r'Annotations:\{a=(".*")\}', block, re.DOTALL)
        assert number is not None
        assert text is not None, block
        found[int(number[1])] = json.loads(text[1].replace("\\x", "\\u00"))
    return found


def _write(folder: Path, numbers: list[int]) -> None:
    rules = [{"alert": f"T{n}", "expr": "x > 1", "annotations": {"a": TEMPLATES[n]}} for n in numbers]
    (folder / "r.yml").write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    series = [
        {"series": 'x{instance="h.example.com:9100",job="a\\"b",n="5"}', "values": f"{VALUE}x10"},
        {"series": 'y{z="0"}', "values": "1x10"},
        {"series": 'y{z="1"}', "values": "2x10"},
    ]
    test = {
        "interval": "1m",
        "input_series": series,
        "external_labels": dict(EXTERNAL.labels),
        "external_url": EXTERNAL.url,
        "alert_rule_test": [{"eval_time": "5m", "alertname": f"T{n}", "exp_alerts": []} for n in numbers],
    }
    files = {"rule_files": ["r.yml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "t.yml").write_text(json.dumps(files))


def test_the_same_text_as_promtool(by_promtool: dict[int, str]) -> None:
    assert len(by_promtool) == len(TEMPLATES)
    ours = {number: expanded(number, text) for number, text in enumerate(TEMPLATES)}
    differing = {TEMPLATES[n]: (ours[n], by_promtool[n]) for n in ours if ours[n] != by_promtool[n]}
    assert differing == {}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [  # what promtool 2.42 has not, or Prometheus 3 says otherwise
        ("{{ pathPrefix }} {{ externalURL }}", "/p http://ex.org:9/p"),
        ("{{ now }} {{ toDuration 5400 }} {{ toDuration 0.0015 }}", "300 1h30m0s 1.5ms"),
        ('{{ urlQueryEscape "a b" }}', "a+b"),
        ("no template: }} {", "no template: }} {"),
    ],
)
def test_what_prometheus_3_has(text: str, becomes: str) -> None:
    assert expanded(0, text) == becomes


def test_an_error_of_a_query_is_in_the_text() -> None:
    said = expanded(1, '{{ query "nothing(" }}')
    assert said.startswith(
        "<error expanding template: error executing template __alert_T1: template: __alert_T1:1:115: "
        'executing "__alert_T1" at <query "nothing(">: error calling query: 1:9: parse error: '
    )


def test_templates_that_use_each_other_without_end_are_an_error() -> None:
    said = expanded(2, '{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}')
    assert "exceeded maximum template depth" in said
    deep = "{{ if true }}" * 200 + "{{ end }}" * 200
    assert expanded(3, deep).startswith("refused: template: __alert_T3:1: too deeply nested")


@pytest.mark.parametrize(
    ("text", "of_value", "of_moment"),
    [
        ("plain", False, False),
        ("{{ $labels.a }} {{ with $labels.b }}{{ len $labels }}{{ end }}", False, False),
        ("{{ $value }}", True, False),
        ("{{ .Value }}", True, False),
        ("{{ printf `%v` . }}", True, False),
        ('{{ query "up" | len }}', False, True),
        ("{{ now }}", False, True),
    ],
)
def test_a_template_knows_what_it_depends_on(text: str, of_value: bool, of_moment: bool) -> None:
    template = alert_template("A", text)
    assert (template.of_value, template.of_moment) == (of_value, of_moment)
