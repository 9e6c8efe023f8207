"""examples/serving/app.py as people run it: uvicorn in a process of its own, scraped on its own port."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from servers import free_port, running

if TYPE_CHECKING:
    import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "serving"


def test_the_example_serves_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port, metrics = free_port(), free_port()
    monkeypatch.setenv("TRILENS_METRICS_LISTEN", f"127.0.0.1:{metrics}")
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "app:app", "--port", str(port)]
    with running(command, f"{url}/healthz", log=tmp_path / "log"):
        assert httpx.get(f"{url}/generate", params={"prompt": "tell me more"}).text == "TELL ME MORE "
        page = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
    shouter = 'model="shouter",version="7"'
    assert f'inference_requests_total{{{shouter},code="200"}} 1' in page
    assert f'inference_tokens_total{{{shouter},kind="prompt"}} 3' in page
    assert f'inference_tokens_total{{{shouter},kind="completion"}} 3' in page
    assert f"inference_time_to_first_token_seconds_count{{{shouter}}} 1" in page
    assert f"inference_time_per_output_token_seconds_count{{{shouter}}} 1" in page
    assert 'inference_queue_depth{queue="model"} 0' in page
    assert 'inference_queue_duration_seconds_count{queue="model"} 1' in page
    assert 'inference_requests_total{model="embedder",version="1",code="ok"}' in page
