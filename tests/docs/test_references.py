"""Whatever the documentation points to exists: links, files, Python names."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# The change log is history: what it names may be gone.
LIVING = [page for page in PAGES if page.name != "CHANGELOG.md"]

FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+(?:\([^()]*\))?)\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FILE = re.compile(r"(?:src|docs|tests|bench|\.ci)/[\w./*-]*")
MODULE = re.compile(r"[\w/]+\.py")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
NAME = re.compile(r"triegs(?:\.\w+)+")


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read_prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def read_code_spans(page: Path) -> Iterator[str]:
    return (match[1] for match in CODE.finditer(read_prose(page)))


def list_anchors(page: Path) -> set[str]:
    """The anchors that a forge derives from the headings."""
    headings = re.findall(r"^#+ +(.+?) *$", read_prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for match in LINK.finditer(CODE.sub("", read_prose(page))):
        target, _, anchor = match[1].partition("#")
        if re.match(r"\w+:", target):
            continue
        found = (page.parent / target).resolve() if target else page
        anchored = not anchor or (found.suffix == ".md" and anchor in list_anchors(found))
        if not (found.exists() and found.is_relative_to(ROOT) and anchored):
            broken.append(match[1])
    assert broken == []


@pytest.mark.parametrize("page", LIVING, ids=name_page)
def test_named_files_exist(page: Path) -> None:
    named = [span for span in read_code_spans(page) if FILE.fullmatch(span)]
    assert [span for span in named if not any(ROOT.glob(span.rstrip("/")))] == []


@pytest.mark.parametrize("page", LIVING, ids=name_page)
def test_named_tests_exist(page: Path) -> None:
    named = [match for span in read_code_spans(page) if (match := TEST.fullmatch(span))]
    missing = [
        match[0] for match in named
        if f"def {match[2]}(" not in (ROOT / match[1]).read_text(encoding="utf-8")
    ]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("page", LIVING, ids=name_page)
def test_named_modules_exist(page: Path) -> None:
    """``elimination.py`` or ``compiler/elimination.py`` is somewhere below the package."""
    folders = [ROOT / "src" / "triegs", ROOT / "tests", ROOT / "bench", ROOT]
    named = [s for s in read_code_spans(page) if MODULE.fullmatch(s) and not FILE.fullmatch(s)]
    missing = [
        span
        for span in named
        if not any(
            path.as_posix().endswith(f"/{span}")
            for folder in folders
            for path in (folder.rglob if folder != ROOT else folder.glob)(Path(span).name)
        )
    ]
    assert missing == []


@pytest.mark.parametrize("page", LIVING, ids=name_page)
def test_named_objects_import(page: Path) -> None:
    missing = []
    for span in read_code_spans(page):
        if match := NAME.match(span):
            try:
                pkgutil.resolve_name(match[0])
            except (ImportError, AttributeError):
                missing.append(match[0])
    assert missing == []
