"""The glossary: one word for one thing, each defined once, in order within its section."""

from __future__ import annotations

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def read_parts() -> dict[str, list[str]]:
    """The terms below each heading."""
    _, *parts = re.split(r"^## (.+)\n", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        title: re.findall(r"^\*\*([^*]+)\*\*", text, re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_terms_are_in_order_in_both_parts() -> None:
    parts = read_parts()
    assert list(parts) == ["Words a user meets", "Internal words"]
    for terms in parts.values():
        assert terms
        assert terms == sorted(terms, key=str.casefold)


def test_terms_are_defined_once() -> None:
    terms = [term.casefold() for part in read_parts().values() for term in part]
    assert sorted(terms) == sorted(set(terms))


def test_bold_marks_definitions_only() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    defined = [term for part in read_parts().values() for term in part]
    assert re.findall(r"\*\*([^*]+)\*\*", text) == defined
