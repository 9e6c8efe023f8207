"""What docs/operations.md has to copy: the chart takes it, and the server reads what comes of it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from chart import ALONE, pod_of, settings_of, template

from trilens.settings.load import load_settings

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")


def test_the_values_that_let_people_in(tmp_path: Path) -> None:
    (shown,) = [one for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "secretMounts" in one]
    values = tmp_path / "my-values.yaml"
    values.write_text(yaml.safe_dump(yaml.safe_load(ALONE.read_text()) | yaml.safe_load(shown)))
    objects = template(values=values)
    (mount,) = [
        one["mountPath"]
        for one in pod_of(objects, "StatefulSet")["containers"][0]["volumeMounts"]
        if one["mountPath"].endswith("/login")
    ]
    read = tmp_path / "trilens.yaml"
    read.write_text(yaml.safe_dump(settings_of(objects)))
    settings = load_settings(read, environ={})
    oidc = settings.access.oidc
    assert oidc is not None
    assert settings.server.external_url == "https://trilens.example"
    assert settings.access.proxy is not None, "who asks by the ingress is told from others"
    assert not settings.access.proxy.names_people
    for file in (oidc.client_secret_file, settings.access.session_key_file):
        assert str(file).startswith(f"{mount}/")
        assert f"--from-literal={Path(str(file)).name}=" in PAGE
