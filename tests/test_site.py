"""The documentation as a site: it is built without a warning, and its links lead somewhere."""

from __future__ import annotations

import logging
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("material", reason="it is in the extra `docs`")

from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.conftest import FIXTURES

ROOT = FIXTURES.parent


class Page(HTMLParser):
    """The links of a page, and the places that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            if value and name in ("id", "name"):
                self.places.add(value)


def test_the_site_is_built_and_its_links_lead_somewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path))
    with caplog.at_level(logging.WARNING, "mkdocs"):
        build(config)
    assert [one.getMessage() for one in caplog.records if one.name.startswith("mkdocs.")] == []
    pages = {path: Page(path) for path in tmp_path.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 100  # a page for each rule, and those that are written
    assert [f"{page}: {link}" for page, link in _lost(pages)] == []


def _lost(pages: dict[Path, Page]) -> list[tuple[Path, str]]:
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            there = target in pages and (
                not parts.fragment or parts.fragment in pages[target].places
            )
            if not there and not (target.is_file() and target.suffix != ".html"):
                lost.append((path, link))
    return lost


def test_links_to_nowhere_are_found(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(
        '<h1 id="here">x</h1><a href="#here">1</a><a href="#gone">2</a><a href="no/">3</a>'
    )
    assert [link for _, link in _lost({path: Page(path)})] == ["#gone", "no/"]
