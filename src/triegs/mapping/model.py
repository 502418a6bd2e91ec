"""What a mapping is: triple templates, whose places have constants, cells, or the row's node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from triegs.errors import MappingError

#: Types that a cell may be read as: ``{amount:decimal}``.
TYPES = (
    "string", "integer", "decimal", "double", "float", "boolean", "date", "dateTime", "time",
)  # fmt: skip
IRI_TYPE = "iri"


class Form(StrEnum):
    """What is made of the text of a term."""

    IRI = "iri"
    LITERAL = "literal"
    WHOLE_IRI = "whole IRI"


@dataclass(frozen=True)
class Constant:
    """A term that all rows share, in N-Triples form."""

    term: str


@dataclass(frozen=True)
class RowNode:
    """``[]``: the node of the row itself."""


@dataclass(frozen=True)
class Filled:
    """A term with cells in it: ``texts`` stand before, between and behind ``columns``.

    ``datatype`` is one of `TYPES`, or the IRI of another one, or empty for a plain text.
    """

    form: Form
    texts: tuple[str, ...]
    columns: tuple[str, ...]
    datatype: str = ""
    language: str = ""

    @property
    def is_cell(self) -> bool:
        """Whether the term is one cell and nothing else."""
        return self.texts == ("", "")


Place = Constant | RowNode | Filled


@dataclass(frozen=True)
class Template:
    """One triple of each row."""

    subject: Place
    predicate: Place
    object: Place

    @property
    def places(self) -> tuple[Place, Place, Place]:
        return self.subject, self.predicate, self.object


@dataclass(frozen=True)
class Mapping:
    """Templates in their order, and where each column was first named, for messages."""

    templates: tuple[Template, ...]
    named: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that templates read."""
        return tuple(name for name, _ in self.named)

    @property
    def has_row_node(self) -> bool:
        return any(isinstance(place, RowNode) for t in self.templates for place in t.places)

    def refuse_column(self, name: str, names: list[str], what: str) -> MappingError:
        """There is no such column, or more than one."""
        where = dict(self.named)[name]
        has = ", ".join(names) or "none"
        hint = ""
        column, sign, kind = name.rpartition(":")
        if sign and column in names:
            hint = f"; there is no type {kind!r}: types are {', '.join((*TYPES, IRI_TYPE))}"
        return MappingError(f"{where}: {what} column {name!r}; its columns: {has}{hint}")
