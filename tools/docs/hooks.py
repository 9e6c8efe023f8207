"""Called by mkdocs: adds the reference pages, which lie nowhere on disk, and looks over what was built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from tools.docs.commands import commands_page
from tools.docs.detector_page import detectors_page
from tools.docs.linked_files import linked_files, with_links_inside
from tools.docs.metric_page import metrics_page
from tools.docs.navigation import expanded
from tools.docs.outside import outside_hosts
from tools.docs.routes import routes_page
from tools.docs.rule_pages import alerts_page, rules_page
from tools.docs.xid_page import xids_page

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PAGES: Final = {
    "reference/commands.md": commands_page,
    "reference/metrics.md": metrics_page,
    "reference/rules.md": rules_page,
    "reference/alerts.md": alerts_page,
    "reference/detectors.md": detectors_page,
    "reference/xids.md": xids_page,
    "reference/routes.md": routes_page,
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = expanded(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    root = Path(config.docs_dir).parent
    for inside, file in linked_files(Path(config.docs_dir), root).items():
        files.append(File.generated(config, inside, content=file.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    return with_links_inside(markdown, page.file.src_uri)


def on_post_build(config: MkDocsConfig) -> None:
    """What is fetched from elsewhere is missing where there is no way out, and tells others who reads."""
    found = outside_hosts(Path(config.site_dir))
    if found:
        raise PluginError(f"the site would fetch from outside: {', '.join(found)}")
