"""What a real Prometheus makes of the same texts."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from http_target import OPENMETRICS, TEXT, HttpTarget

from servers import free_port, require_corpus, require_server, running
from trilens.collect.exposition import parse_samples
from trilens.model.errors import ExpositionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Texts at the edge of the format; whether they parse is Prometheus's to say.
TEXTS = [
    b"a 1\n",
    b"a 1",
    b"",
    b"\n\na 1\n\n",
    b"   \na 1\n",
    b"a 1\r\n",
    b"# HELP a x\r\na 1\n",
    b"# TYPE a gauge\r\na 1\n",
    b"a\t1\n",
    b"a  1   \n",
    b" a 1\n",
    b'a{x="1"}1\n',
    b'a{x="1",} 1\n',
    b'a{x="1",,} 1\n',
    b'a{,x="1"} 1\n',
    b"a{,} 1\n",
    b"a{} 1\n",
    b'a { x = "1" , y = "2" } 1\n',
    b'a{x="1"y="2"} 1\n',
    b"a{x='1'} 1\n",
    b"a{x=1} 1\n",
    b'a{x="1} 1\n',
    b'a{x="1\ny"} 1\n',
    b'a{x="\\q"} 1\n',
    b'a{x="\xff"} 1\n',
    b'a{x="1",x="2"} 1\n',
    b'{x="1"} 1\n',
    b"a.b 1\n",
    b"1a 1\n",
    b":a 1\n",
    b'a{:x="1"} 1\n',
    b"a +5\n",
    b"a .5\n",
    b"a 5.\n",
    b"a 1e5\n",
    b"a 1E+5\n",
    b"a 1e\n",
    b"a 1_000\n",
    b"a 0x10\n",
    b"a 0x1p4\n",
    b"a nan\n",
    b"a NAN\n",
    b"a inf\n",
    b"a -Infinity\n",
    b"a infi\n",
    b"a\n",
    b"a \n",
    b"a 1 2\n",
    b"a 1 1700000000000\n",
    b"a 1 1.5\n",
    b"a 1 2 3\n",
    b"a 1 # {} 1\n",
    b"#\na 1\n",
    b"#comment\na 1\n",
    b"# TYPE\na 1\n",
    b"# TYPE a\na 1\n",
    b"# TYPE a gauge\n# TYPE a counter\na 1\n",
    b"# TYPE a nonsense\na 1\n",
    b"# TYPE a gauge \na 1\n",
    b"# TYPE  a  gauge\na 1\n",
    b"# TYPE  a gauge\na 1\n",
    b"#  TYPE a gauge\na 1\n",
    b"#\tTYPE\ta\tgauge\na 1\n",
    b"#TYPE a nonsense\na 1\n",
    b"# TYPE a, gauge\na 1\n",
    b"# type a nonsense\na 1\n",
    b"# UNIT a nonsense\na 1\n",
    b"# TYPEa nonsense\na 1\n",
    b" # TYPE a gauge\na 1\n",
    b"# HELP\na 1\n",
    b"# HELP a\na 1\n",
    b"# EOF\na 1\n",
    b"<html>\n",
]  # fmt: skip

# A line is a line here: a label value with a newline in it is not put together again.
KNOWN_DIFFERENCES = {b'a{x="1\ny"} 1\n': "up"}


def ours(body: bytes, *, openmetrics: bool = False) -> bool:
    try:
        parse_samples(body, openmetrics=openmetrics)
    except ExpositionError:
        return False
    return True


class Api:
    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **params: str) -> Any:
        with urllib.request.urlopen(
            f"{self._url}{path}?{urllib.parse.urlencode(params)}", timeout=10
        ) as answer:
            return json.load(answer)["data"]

    def wait(self, path: str, done: Callable[[Any], bool], timeout_s: float = 60) -> Any:
        # Another program gives no event to wait for, so ask again until it answers as hoped.
        deadline = time.monotonic() + timeout_s
        while not done(data := self.get(path)):
            assert time.monotonic() < deadline, data
            time.sleep(0.1)
        return data


@pytest.fixture
def target() -> Iterator[HttpTarget]:
    with HttpTarget() as started:
        yield started


def healths(
    target: HttpTarget, texts: dict[str, bytes], tmp_path: Path, content_type: str = TEXT
) -> dict[str, str]:
    """Prometheus's health for each text, served under the path of its name."""
    prometheus = require_server("prometheus")
    for name, text in texts.items():
        target.say(text, f"/{name}", content_type=content_type)
    jobs = [
        {"job_name": name, "metrics_path": f"/{name}", "static_configs": [{"targets": [target.address]}]}
        for name in texts
    ]
    config = tmp_path / "prometheus.yml"
    config.write_text(
        json.dumps({"global": {"scrape_interval": "4s", "scrape_timeout": "4s"}, "scrape_configs": jobs})
    )
    port = free_port()
    command = [
        prometheus,
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, f"http://127.0.0.1:{port}/-/ready", log=tmp_path / "log"):
        data = Api(f"http://127.0.0.1:{port}").wait(
            "/api/v1/targets",
            lambda data: (
                len(data["activeTargets"]) == len(texts)
                and all(t["health"] != "unknown" for t in data["activeTargets"])
            ),
        )
    return {t["labels"]["job"]: t["health"] for t in data["activeTargets"]}


def test_prometheus_takes_the_texts_that_we_take(target: HttpTarget, tmp_path: Path) -> None:
    texts = {str(i): text for i, text in enumerate(TEXTS)}
    health = healths(target, texts, tmp_path)
    differing = {text: health[name] for name, text in texts.items() if (health[name] == "up") != ours(text)}
    assert differing == KNOWN_DIFFERENCES


def test_prometheus_takes_all_openmetrics_that_we_take(target: HttpTarget, tmp_path: Path) -> None:
    """We may be stricter, as the corpus of OpenMetrics asks; never the other way round."""
    folders = sorted(require_corpus("openmetrics").iterdir())
    texts = {folder.name: (folder / "metrics").read_bytes() for folder in folders}
    health = healths(target, texts, tmp_path, OPENMETRICS)
    lenient = [n for n, text in texts.items() if health[n] != "up" and ours(text, openmetrics=True)]
    assert lenient == []
