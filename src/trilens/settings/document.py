"""docs/settings.md, from the tree itself: `python -m trilens.settings.document > docs/settings.md`."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ByteSize
from pydantic_core import PydanticUndefined

from trilens.settings.duration import format_duration
from trilens.settings.tree import Settings, leaves

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_HEAD = """\
# Settings

Settings come from four places; the first that names one wins:

1. the command line (`--listen`, `--data`),
2. the environment: `TRILENS_` and the setting's path in capitals, `TRILENS_STORAGE_DATA_DIR` for
   `storage.data_dir`; lists are written with commas,
3. the file given with `--config` or in `TRILENS_CONFIG`, or `trilens.yaml` in the working directory,
4. the defaults below.

A wrong value is an error that says where it stands: `trilens.yaml:3:5`, `--listen` or
`TRILENS_SERVER_LISTEN`. A name that nobody knows is an error that says which known one is nearest, a key
given twice an error too. Durations are written as Prometheus writes them (`15s`, `1h30m`, `30d`), sizes
like `512MiB`. Relative paths in a file are relative to that file. The secrets of `source` and
`remote_write` that are given by file are read again for every request, so they may rotate; tokens and
headers are printable ASCII. A secret is given itself or by file (`token` or `token_file`): both in one place
are an error, and either in the environment wins over both in the file. `trilens config check FILE` reads a
file as the server would, environment and all; with `--elsewhere` one whose secrets lie on another machine.
A running server takes over changed `scrape`, `rules`, `alerting`, `prices`, `budgets` and `cure` sections and
`access.grants` on SIGHUP or a POST to `/-/reload`; everything else needs a restart.

```yaml
server:
  listen: 0.0.0.0:9333
  token_file: /etc/trilens/token
storage:
  data_dir: /var/lib/trilens
  retention: 30d
scrape:
  global: {scrape_interval: 15s}
  scrape_configs:
    - job_name: dcgm
      static_configs:
        - targets: [gpu-1:9400, gpu-2:9400]
```

The client commands read `TRILENS_SERVER` (the server's URL, http://127.0.0.1:9333 when it is not set), and
`TRILENS_TOKEN` or `TRILENS_TOKEN_FILE`; else what [`trilens login`](cli.md#trilens-login) keeps for it.
"""


def render() -> str:
    parts = [_HEAD]
    for group, members in groupby(leaves(), key=lambda leaf: leaf.group):
        about = Settings.model_fields[group]
        lines = [f"## {group}", "", str(about.description), ""]
        doc = getattr(about.annotation, "__doc__", None)
        if (
            group
            in (
                "source",
                "remote_write",
                "scrape",
                "rules",
                "alerting",
                "ownership",
                "topology",
                "prices",
                "budgets",
            )
            and doc
        ):
            lines += [" ".join(doc.split()), ""]
        lines += ["| setting | default | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| `{leaf.path}` | {_default(leaf.field)} | {leaf.field.description} |" for leaf in members
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if value is PydanticUndefined:
        factory: Any = field.default_factory
        value = factory()
    if value is None or value == () or value in ({}, []):
        return "none"
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    if isinstance(value, ByteSize):
        return f"`{value.human_readable(separator='').replace('.0', '')}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    if isinstance(value, dict):
        return "`" + ", ".join(f"{k}: {v}" for k, v in value.items()) + "`"
    return f"`{value}`" if not isinstance(value, Path) else f"`{value.as_posix()}`"


if __name__ == "__main__":
    sys.stdout.write(render())
