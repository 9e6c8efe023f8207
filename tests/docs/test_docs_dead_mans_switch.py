"""docs/self-monitoring.md: a real Alertmanager routes as shown, and the switch hears in time."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
import yaml

from receivers_at_work import HttpReceiver
from servers import free_port, require_server, running

PAGE = (Path(__file__).parents[2] / "docs" / "self-monitoring.md").read_text("utf-8")
FASTER = 30  # what is a minute there is two seconds here


@pytest.mark.whole
def test_the_switch_hears_every_minute(tmp_path: Path) -> None:
    (shown,) = [one for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "TrilensWatchdog" in one]
    tree = yaml.safe_load(shown)
    (route,) = tree["route"]["routes"]
    times = {key: _seconds(text) for key, text in route.items() if key.startswith(("group_", "repeat_"))}
    assert times["group_interval"] == 60, "Alertmanager's own is five minutes, and it repeats nothing sooner"
    assert times["repeat_interval"] < 60, "as long as the other, it is a moment too late every other time"
    route |= {key: f"{int(seconds * 1000 / FASTER)}ms" for key, seconds in times.items()}
    with HttpReceiver() as switch:
        tree["receivers"][0]["webhook_configs"][0]["url"] = switch.url
        tree["receivers"].append({"name": "others"})
        tree["route"] |= {"receiver": "others"}
        config = tmp_path / "alertmanager.yml"
        config.write_text(yaml.safe_dump(tree))
        url = f"http://127.0.0.1:{free_port()}"
        command = [
            require_server("prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address={url.removeprefix('http://')}",
            "--cluster.listen-address=",
        ]
        with running(command, f"{url}/-/ready", log=tmp_path / "alertmanager.log"):
            alert = {"labels": {"alertname": "TrilensWatchdog", "severity": "none"}}
            httpx.post(f"{url}/api/v2/alerts", json=[alert]).raise_for_status()
            for _ in range(3):
                switch.next()


def _seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]
