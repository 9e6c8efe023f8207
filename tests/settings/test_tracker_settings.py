"""Which trackers and collectors the settings name: what is refused, and how one signs in."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from trilens.model.errors import ConfigError
from trilens.model.masking import masked
from trilens.serve.tracker_readers import names_trackers
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.settings.tree import Settings


def settings(**groups: dict[str, Any]) -> Settings:
    told = {f"{group}.{name}": value for group, given in groups.items() for name, value in given.items()}
    return load_settings(overrides=told, environ={})


@pytest.mark.parametrize(
    ("group", "given", "said"),
    [
        ("mlflow", {"url": "mlflow:5000"}, "not an http:// or https:// URL"),
        ("mlflow", {"url": "http://m", "interval": "0s"}, "must be above 0"),
        ("mlflow", {"url": "http://m", "bearer_token": "t", "username": "u"}, "not both"),
        ("wandb", {"projects": ["llm"], "url": "http://w", "api_key": "k"}, "'llm' is not entity/project"),
        ("wandb", {"projects": ["/llm"], "url": "http://w", "api_key": "k"}, "'/llm' is not entity/project"),
        ("wandb", {"projects": ["team/llm"], "api_key": "k"}, "projects need url"),
        ("wandb", {"projects": ["team/llm"], "url": "http://w"}, "and api_key or api_key_file"),
        ("tensorboard", {"folders": ["/runs"], "interval": "-1s"}, "interval"),
        ("tensorboard", {"folder": "/runs"}, "folder"),
        ("otlp", {"url": "http://c", "interval": "0s"}, "must be above 0"),
        ("remote_write", {"url": "http://c", "interval": "0s"}, "must be above 0"),
    ],
)
def test_what_cannot_be_followed_is_refused(group: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(**{group: given})


def test_nothing_is_followed_unless_it_is_named() -> None:
    assert not names_trackers(settings())
    assert not names_trackers(settings(wandb={"url": "http://w", "api_key": "k"}))
    assert names_trackers(settings(tensorboard={"folders": ["/runs"]}))
    assert names_trackers(settings(mlflow={"url": "http://m"}))


def test_the_key_of_wandb_is_read_anew_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first\n")
    wandb = settings(wandb={"projects": ["team/llm"], "url": "http://w", "api_key_file": str(file)}).wandb
    assert wandb.request_headers() == {"Authorization": _basic("api:first")}
    file.write_text("second")
    assert wandb.request_headers() == {"Authorization": _basic("api:second")}
    file.unlink()
    with pytest.raises(ConfigError, match="the key of W&B"):
        wandb.request_headers()


def test_no_secret_is_shown() -> None:
    given = settings(
        wandb={"projects": ["team/llm"], "url": "http://w", "api_key": "sesame"},
        mlflow={"url": "http://ada:sesame@mlflow"},
    )
    assert "sesame" not in str(masked(given.model_dump(mode="json")))


def _basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
