"""The glossary: one word for one thing, each defined once, in alphabetical order."""

from __future__ import annotations

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def read_terms() -> list[str]:
    return re.findall(r"^\*\*([^*]+)\*\*", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)


def test_terms_are_defined_once_and_in_order() -> None:
    terms = read_terms()
    assert terms
    assert terms == sorted(set(terms), key=str.casefold)


def test_bold_marks_definitions_only() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    assert re.findall(r"\*\*([^*]+)\*\*", text) == read_terms()
