"""Bounds on what the parser of documents is given, which has none of its own.

A few bytes of RDF/XML can stand for gigabytes, by entities that are made of entities; and a parser
that keeps what is open needs memory, or a stack, for every level of it. So each chunk is looked at
before the parser has it. All of it is counting of bytes; ordinary documents come nowhere near.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triegs.inputs.lines import LONGEST_RECORD
from triegs.inputs.streams import BrokenFile

MOST_ENTITY_BYTES = 1 << 16
MOST_DECLARATION_BYTES = 1 << 20
#: Lists and nodes without label in each other: about 400 bytes of memory each.
MOST_OPEN = 1_000_000
#: Triples as terms in each other, for which the parser's stack is too small from about 15,000 on.
MOST_NESTED = 4_000
NESTED, NESTED_END = b"<<(", b")>>"
TOO_NESTED = f"triples are nested more than {MOST_NESTED:,} deep"

_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s"'<>]+)\s+(?:"([^"]*)"|'([^']*)')""")
_DECLARATION = b"<!ENTITY"
_REFERENCE = re.compile(rb"&([^\s&;#]+);")
_BUILT_IN = (b"lt", b"gt", b"amp", b"apos", b"quot")


class Bounded:
    """Passes chunks on, and raises `BrokenFile` before one that takes the parser too far.

    `note_statement` tells that a statement was found: what was read before the last chunk is done
    with then.
    """

    def __init__(self, chunks: Iterator[bytes], form: str) -> None:
        self._chunks = _scan_entities(chunks, self) if form == "rdf-xml" else chunks
        self._is_xml = form == "rdf-xml"
        self._size = self._open = self._nested = 0
        self._last = (0, 0, 0)
        #: By name: how many bytes each entity stands for.
        self.entities: dict[bytes, int] = {}

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            size, opened, nested = found = self._measure(chunk)
            self._size, self._open = self._size + size, max(self._open + opened, 0)
            self._nested, self._last = max(self._nested + nested, 0), found
            if self._size > LONGEST_RECORD:
                raise BrokenFile("a statement has more than 64 MiB")
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
        """An entity: what it stands for is known when it is declared."""
        size = len(value)
        for other in _REFERENCE.findall(value):
            size += self.entities.get(other, 1 if other in _BUILT_IN else 0)
        if size > MOST_ENTITY_BYTES:
            shown = name.decode("utf-8", "replace")
            raise BrokenFile(f"the entity &{shown}; stands for more than 64 KiB")
        # Of several declarations the longest counts, whichever the parser takes.
        self.entities[name] = max(size, self.entities.get(name, 0))


def _scan_entities(chunks: Iterator[bytes], bounded: Bounded) -> Iterator[bytes]:
    """Tell of the entities that are declared, each before the parser has its declaration.

    They are looked for in the whole document: a parser may take them where XML does not.
    """
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        end = 0
        for match in _ENTITY.finditer(data):
            bounded.declare(match[1], match[2] if match[2] is not None else match[3])
            end = match.end()
        # A declaration that has begun waits for its end.
        begun = data.find(_DECLARATION, end)
        while begun >= 0 and data.find(b">", begun) >= 0 and not _is_open(data, begun):
            begun = data.find(_DECLARATION, begun + 1)
        if begun < 0:
            begun = _find_beginning(data)
        rest = data[begun:]
        if len(rest) > MOST_DECLARATION_BYTES:
            raise BrokenFile("the declaration of an entity has more than 1 MiB")
        if begun:
            yield data[:begun]
    if rest:
        yield rest


def _is_open(data: bytes, begun: int) -> bool:
    """Whether a declaration that begins here may have a value that is not all there."""
    quotes = data[begun:]
    return quotes.count(b'"') == 1 or quotes.count(b"'") == 1


def _find_beginning(data: bytes) -> int:
    """Where a declaration may begin that is cut off behind some letters; the end if nowhere."""
    for size in range(len(_DECLARATION) - 1, 0, -1):
        if data.endswith(_DECLARATION[:size]):
            return len(data) - size
    return len(data)
