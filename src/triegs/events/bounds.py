"""Limits on the input of the document parser, which has none of its own.

Nested entities let a few bytes of RDF/XML expand to gigabytes, and every open list or node costs
the parser memory or stack. Each chunk is therefore checked before the parser sees it. The checks
only count bytes; ordinary documents stay far below the limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triegs.events.lines import LONGEST_RECORD
from triegs.events.streams import BrokenFile

MOST_ENTITY_BYTES = 1 << 16
MOST_DECLARATION_BYTES = 1 << 20
#: Nested lists and unlabelled nodes: about 400 bytes of memory each.
MOST_OPEN = 1_000_000
#: Nested triple terms; the parser's stack overflows at about 15,000.
MOST_NESTED = 4_000
NESTED, NESTED_END = b"<<(", b")>>"
TOO_NESTED = f"triples are nested more than {MOST_NESTED:,} deep"

_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s"'<>]+)\s+(?:"([^"]*)"|'([^']*)')""")
_DECLARATION = b"<!ENTITY"
_REFERENCE = re.compile(rb"&([^\s&;#]+);")
_BUILT_IN = (b"lt", b"gt", b"amp", b"apos", b"quot")


class Bounded:
    """Passes chunks through; raises `BrokenFile` before a chunk that exceeds a limit.

    `note_statement`, called for each statement, resets the counts to those of the last chunk.
    """

    def __init__(self, chunks: Iterator[bytes], form: str) -> None:
        self._chunks = _scan_entities(chunks, self) if form == "rdf-xml" else chunks
        self._is_xml = form == "rdf-xml"
        self._size = self._open = self._nested = 0
        self._last = (0, 0, 0)
        #: Expanded size in bytes of each entity, by name.
        self.entities: dict[bytes, int] = {}

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            size, opened, nested = found = self._measure(chunk)
            self._size, self._open = self._size + size, max(self._open + opened, 0)
            self._nested, self._last = max(self._nested + nested, 0), found
            if self._size > LONGEST_RECORD:
                raise BrokenFile("a statement is longer than 64 MiB")
            if self._open > MOST_OPEN:
                raise BrokenFile(f"lists or nodes are nested more than {MOST_OPEN:,} deep")
            if self._nested > MOST_NESTED:
                raise BrokenFile(TOO_NESTED)
            yield chunk

    def _measure(self, chunk: bytes) -> tuple[int, int, int]:
        if self._is_xml:
            names = _REFERENCE.findall(chunk) if self.entities else []
            return len(chunk) + sum(self.entities.get(name, 0) for name in names), 0, 0
        opened = chunk.count(b"(") + chunk.count(b"[") - chunk.count(b")") - chunk.count(b"]")
        return len(chunk), opened, chunk.count(NESTED) - chunk.count(NESTED_END)

    def note_statement(self) -> None:
        self._size, _, nested = self._last
        self._nested = max(nested, 0)

    def declare(self, name: bytes, value: bytes) -> None:
        """Record an entity with its expanded size."""
        size = len(value)
        for other in _REFERENCE.findall(value):
            size += self.entities.get(other, 1 if other in _BUILT_IN else 0)
        if size > MOST_ENTITY_BYTES:
            shown = name.decode("utf-8", "replace")
            raise BrokenFile(f"the entity &{shown}; expands to more than 64 KiB")
        # The longest of several declarations counts, whichever one the parser uses.
        self.entities[name] = max(size, self.entities.get(name, 0))


def _scan_entities(chunks: Iterator[bytes], bounded: Bounded) -> Iterator[bytes]:
    """Record entity declarations before the parser sees them.

    The whole document is scanned: a parser may accept declarations where XML does not allow them.
    """
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        end = 0
        for match in _ENTITY.finditer(data):
            bounded.declare(match[1], match[2] if match[2] is not None else match[3])
            end = match.end()
        # Hold back an incomplete declaration until its end arrives.
        begun = data.find(_DECLARATION, end)
        while begun >= 0 and data.find(b">", begun) >= 0 and not _is_open(data, begun):
            begun = data.find(_DECLARATION, begun + 1)
        if begun < 0:
            begun = _find_beginning(data)
        rest = data[begun:]
        if len(rest) > MOST_DECLARATION_BYTES:
            raise BrokenFile("an entity declaration is longer than 1 MiB")
        if begun:
            yield data[:begun]
    if rest:
        yield rest


def _is_open(data: bytes, begun: int) -> bool:
    """Whether the declaration starting here may have an incomplete value."""
    quotes = data[begun:]
    return quotes.count(b'"') == 1 or quotes.count(b"'") == 1


def _find_beginning(data: bytes) -> int:
    """Where a truncated declaration keyword may start at the end of the data, else its length."""
    for size in range(len(_DECLARATION) - 1, 0, -1):
        if data.endswith(_DECLARATION[:size]):
            return len(data) - size
    return len(data)
