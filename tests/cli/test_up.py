"""The whole server in a process of its own, with the real store."""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from certificates import make_certificates, sign
from servers import free_port, require_server, until
from trilens import __version__
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens.serve.own_health import certificate_ends_s
from trilens.simulate.fleet import Fleet
from trilens.simulate.targets import FleetTargets
from trilens_process import TRILENS, clean_environment, server, trilens

DOCS = Path(__file__).parents[2] / "docs"
NOW = int(time.time()) // 15 * 15


def write(url: str, name: str, values: list[float]) -> None:
    labels = make_labels({"__name__": name, "gpu": "0"})
    rows = [(labels, (NOW - 15 * (len(values) - 1 - i)) * 1000, value) for i, value in enumerate(values)]
    answer = httpx.post(f"{url}/api/v1/write", content=encode(rows), headers=HEADERS, timeout=20)
    assert answer.status_code == 204, answer.text


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("127.0.0.1:{port}", "the connection is refused"),
        ("nowhere.invalid:8123", "its name leads to no address"),
    ],
)
def test_no_clickhouse_is_said_in_one_line(tmp_path: Path, host: str, why: str) -> None:
    at = f"http://{host.format(port=free_port())}"
    (tmp_path / "a.yaml").write_text(f"storage: {{url: '{at}'}}\n", encoding="utf-8")
    said = trilens("up", "--config", "a.yaml", "--listen", "127.0.0.1:0", cwd=tmp_path)
    assert said.returncode == 1
    assert said.stderr == (
        f"trilens: no ClickHouse answers at {at}: {why} (is it running, and is storage.url right?)\n"
    )


def promtool(*arguments: str) -> list[str]:
    command = [require_server("promtool"), "query", *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return said.stdout.strip().splitlines()


def test_written_asked_stopped_and_asked_at_rest(tmp_path: Path) -> None:
    """One life of a server, told in order: each step needs the one before."""
    with server(tmp_path) as (url, process):
        write(url, "power", [1.5, 2.5, 3.5])
        answer = httpx.get(f"{url}/api/v1/query", params={"query": "sum(power)", "time": NOW}).json()
        assert answer["data"]["result"] == [{"metric": {}, "value": [NOW, "3.5"]}]

        bad = httpx.post(f"{url}/api/v1/write", content=b"garbage", headers=HEADERS)
        assert bad.status_code == 400
        assert "snappy" in bad.text

        assert promtool("instant", url, "power", f"--time={NOW}") == [f'power{{gpu="0"}} => 3.5 @[{NOW}]']
        window = (f"--start={NOW - 30}", f"--end={NOW}", "--step=15s")
        points = [f"1.5 @[{NOW - 30}]", f"2.5 @[{NOW - 15}]", f"3.5 @[{NOW}]"]
        assert promtool("range", url, "power", *window)[1:4] == points
        assert promtool("labels", url, "gpu") == ["0"]
        assert promtool("series", url, "--match=power") == ['{__name__="power", gpu="0"}']

        second = trilens("up", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
        assert second.returncode == 1
        assert str(process.pid) in second.stderr
        assert len(second.stderr.strip().splitlines()) == 1

        write(url, "last_words", [42.0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    asked = trilens("query", "last_words", "--at", str(NOW), "--data", str(tmp_path / "data"))
    assert (asked.returncode, asked.stdout) == (0, 'last_words{gpu="0"} 42\n')
    window = ("--start", str(NOW - 30), "--end", str(NOW), "--step", "15")
    ranged = trilens("query", "power", *window, "--json", "--data", str(tmp_path / "data"))
    (series,) = json.loads(ranged.stdout)["result"]
    assert series["values"] == [[NOW - 30, "1.5"], [NOW - 15, "2.5"], [NOW, "3.5"]]


def test_scrapes_reloads_and_shows_targets(tmp_path: Path) -> None:
    config = tmp_path / "trilens.yaml"

    def configure(*addresses: str) -> None:
        targets = json.dumps(addresses)
        config.write_text(
            "scrape:\n  global: {scrape_interval: 1s}\n  scrape_configs:\n"
            f"    - job_name: dcgm\n      static_configs: [{{targets: {targets}}}]\n",
            encoding="utf-8",
        )

    with FleetTargets(Fleet(2)) as fleet:
        first, second = fleet.addresses
        configure(first)
        with server(tmp_path, "--config", str(config)) as (url, process):

            def count(query: str) -> str:
                result = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()["data"]["result"]
                return str(result[0]["value"][1]) if result else "none"

            until(lambda: count("count(DCGM_FI_DEV_POWER_USAGE)") == "8", "eight GPUs")
            configure(first, second)
            assert httpx.post(f"{url}/-/reload").status_code == 200
            until(lambda: count("sum(up)") == "2", "two targets")

            def active() -> list[dict[str, Any]]:
                shown = httpx.get(f"{url}/api/v1/targets?state=active").json()["data"]["activeTargets"]
                return list(shown)

            until(lambda: {t["health"] for t in active()} == {"up"}, "both are known to be up")
            assert {t["labels"]["instance"] for t in active()} == {first, second}
            assert active()[0]["scrapeInterval"] == "1s"
            described = httpx.get(
                f"{url}/api/v1/targets/metadata",
                params={"match_target": f'{{instance="{first}"}}', "metric": "DCGM_FI_DEV_GPU_TEMP"},
            ).json()["data"]
            assert [(d["target"]["instance"], d["type"]) for d in described] == [(first, "gauge")]
            known = httpx.get(f"{url}/api/v1/metadata?metric=DCGM_FI_DEV_GPU_TEMP").json()["data"]
            assert known["DCGM_FI_DEV_GPU_TEMP"][0]["help"] == "GPU temperature (in C)."

            config.write_text("scrape: {scrape_configs: [{job_nam: x}]}", encoding="utf-8")
            refused = httpx.post(f"{url}/-/reload")
            assert refused.status_code == 400
            assert "job_nam" in refused.json()["error"]
            assert (
                httpx.get(f"{url}/api/v1/status/runtimeinfo").json()["data"]["reloadConfigSuccess"] is False
            )

            configure(second)
            good = config.read_text(encoding="utf-8")
            config.write_text(f"{good}query: {{timeout: 7s}}\n", encoding="utf-8")
            refused = httpx.post(f"{url}/-/reload")
            assert refused.status_code == 400
            assert "query.timeout: cannot change while the server runs" in refused.json()["error"]
            assert len(active()) == 2, "nothing was taken over"
            config.write_text(good, encoding="utf-8")
            process.send_signal(signal.SIGHUP)
            until(lambda: count("count(up)") == "1", "the first target's series end")
            one_up = 'trilens_scrape_targets{health="up"} 1.0'
            until(lambda: one_up in httpx.get(f"{url}/metrics").text, "the second target is known to be up")
            text = httpx.get(f"{url}/metrics").text
            assert "trilens_scrapes_failed_total 0.0" in text
            written = (DOCS / "api.md").read_text(encoding="utf-8")
            names = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP trilens_")}
            assert len(names) > 15
            assert [name for name in names if f"| `{name}` |" not in written] == []


def test_refusals_are_one_line_and_touch_nothing(tmp_path: Path) -> None:
    open_to_all = trilens("up", "--listen", "gpu-1.invalid:80", "--data", str(tmp_path / "data"))
    assert open_to_all.returncode == 2
    assert "without a token" in open_to_all.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        busy = trilens("up", "--listen", address, "--data", str(tmp_path / "data"))
    assert busy.returncode == 2
    assert f"cannot listen on {address}" in busy.stderr
    (tmp_path / "trilens.yaml").write_text("storage: {data_dirr: x}", encoding="utf-8")
    unknown = trilens("up", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "unknown setting 'storage.data_dirr' (did you mean 'storage.data_dir'?)" in unknown.stderr
    for said in (open_to_all, busy, unknown):
        assert len(said.stderr.strip().splitlines()) == 1
        assert said.stdout == ""
    assert not (tmp_path / "data").exists()


def test_a_token_file_guards_the_server_and_the_log_is_json(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    config = tmp_path / "trilens.yaml"
    config.write_text("server: {token_file: token, log_format: json}\n", encoding="utf-8")
    with server(tmp_path, "--config", str(config)) as (url, _):
        assert httpx.get(f"{url}/api/v1/query?query=1").status_code == 401
        refused = trilens("query", "1", "--server", url)
        assert refused.returncode == 2
        assert "TRILENS_TOKEN" in refused.stderr
        accepted = trilens("query", "1+1", TRILENS_SERVER=url, TRILENS_TOKEN="s3cret")
        assert (accepted.returncode, accepted.stdout) == (0, "2\n")
        shown = httpx.get(f"{url}/api/v1/status/config", headers={"Authorization": "Bearer s3cret"})
        assert "s3cret" not in shown.text
    lines = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert [line["url"] for line in lines if line["message"] == "listening"] == [url]
    assert lines[-1]["message"] == "stopped"


def test_people_are_told_the_address_in_one_line(tmp_path: Path) -> None:
    with server(tmp_path) as (url, _):
        told = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert [line for line in told if line.startswith("Trilens ")] == [
        f"Trilens {__version__} runs at {url} - Ctrl-C ends it"
    ]
    assert any(f"INFO    listening url={url} " in line for line in told)


def test_https_with_a_certificate(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    config = tmp_path / "trilens.yaml"
    config.write_text("server: {tls_cert_file: server.pem, tls_key_file: server.key}\n", encoding="utf-8")
    address = f"localhost:{free_port()}"
    command = [*TRILENS, "up", "--config", str(config), "--listen", address, "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean_environment()) as process:
        try:
            assert process.stderr is not None
            assert any("listening" in line for line in process.stderr)
            trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            answer = httpx.get(f"https://{address}/api/v1/query?query=1", verify=trust)
            assert answer.json()["data"]["result"][1] == "1"
            assert "max-age" in answer.headers["strict-transport-security"]
            own = httpx.get(f"https://{address}/metrics", verify=trust).text
            assert "trilens_tls_certificate_expiry_timestamp_seconds" in own
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"http://{address}/healthz")
            old = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            with pytest.deprecated_call():
                old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"https://{address}/healthz", verify=old)
            before = ssl.get_server_certificate(("localhost", int(address.rpartition(":")[2])))
            (tmp_path / "server.pem").write_text("nonsense", encoding="utf-8")
            process.send_signal(signal.SIGHUP)
            assert any("the old certificate stays" in line for line in process.stderr)
            ready = httpx.get(f"https://{address}/readyz", verify=trust).json()
            assert "server.pem" in ready["certificate"]["trouble"]
            sign(tmp_path, "server", days=40)  # as a mounted secret changes: nobody sends a signal
            assert any("the certificate is read again" in line for line in process.stderr)
            assert httpx.get(f"https://{address}/healthz", verify=trust).status_code == 200
            assert "certificate" not in httpx.get(f"https://{address}/readyz", verify=trust).json()
            after = ssl.get_server_certificate(("localhost", int(address.rpartition(":")[2])))
            assert after != before
            own = httpx.get(f"https://{address}/metrics", verify=trust).text
            ends = re.search(r"^trilens_tls_certificate_expiry_timestamp_seconds (\S+)", own, re.MULTILINE)
            assert ends is not None
            assert float(ends[1]) == certificate_ends_s(tmp_path / "server.pem")
        finally:
            process.terminate()


def test_a_certificate_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "trilens.yaml"
    config.write_text("server: {tls_cert_file: no.pem, tls_key_file: no.key}\n", encoding="utf-8")
    said = trilens("up", "--config", str(config), "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert said.returncode == 2
    assert "no.pem" in said.stderr
    assert len(said.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "data").exists()
