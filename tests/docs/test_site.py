"""The site has every page and every public name, and needs nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import triegs
import triegs.spark

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXTERNAL = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def list_entries(page: Path) -> set[Path]:
    """The pages that the navigation lists below a page."""
    lines = [
        line
        for block in TOCTREE.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line and not line.startswith(":")
    ]
    entries = {found for line in lines for found in page.parent.glob(f"{line}.md")}
    return entries | {below for entry in entries for below in list_entries(entry)}


def test_navigation_lists_every_page() -> None:
    index = DOCS / "index.md"
    assert list_entries(index) | {index} == {*DOCS.rglob("*.md")}


@pytest.mark.parametrize("package", [triegs, triegs.spark], ids=lambda package: package.__name__)
def test_reference_lists_every_public_name_once(package: object) -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    module = package.__name__  # type: ignore[attr-defined]
    listed = re.findall(rf"^\.\. auto\w+:: {re.escape(module)}\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted({*package.__all__} - {"__version__"})  # type: ignore[attr-defined]


def test_built_pages_load_nothing_from_elsewhere() -> None:
    pages = sorted(SITE.rglob("*.html"))
    if not pages:
        pytest.skip("run 'make docs' first")
    external = [
        f"{page.relative_to(SITE)}: {match[0]}"
        for page in pages
        for match in EXTERNAL.finditer(page.read_text(encoding="utf-8"))
    ]
    assert external == []
