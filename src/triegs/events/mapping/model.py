"""The mapping model: triple templates of constants, cells and row nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from triegs.errors import MappingError
from triegs.reasons import list_names

#: Datatypes of a cell: ``{amount:decimal}``.
TYPES = (
    "string", "integer", "decimal", "double", "float", "boolean", "date", "dateTime", "time",
)  # fmt: skip
IRI_TYPE = "iri"


class Form(StrEnum):
    """The kind of term a text becomes."""

    IRI = "iri"
    LITERAL = "literal"
    WHOLE_IRI = "whole IRI"


@dataclass(frozen=True)
class Constant:
    """A term shared by all rows, in N-Triples form."""

    term: str


@dataclass(frozen=True)
class RowNode:
    """``[]``: the node of the row itself."""


@dataclass(frozen=True)
class Filled:
    """A term with cells in it: ``texts`` come before, between and after ``columns``.

    ``datatype`` is one of `TYPES`, another datatype IRI, or empty for a plain string.
    """

    form: Form
    texts: tuple[str, ...]
    columns: tuple[str, ...]
    datatype: str = ""
    language: str = ""

    @property
    def is_cell(self) -> bool:
        """Whether the term is a single cell without other text."""
        return self.texts == ("", "")


TermTemplate = Constant | RowNode | Filled


@dataclass(frozen=True)
class Template:
    """A triple per row."""

    subject: TermTemplate
    predicate: TermTemplate
    object: TermTemplate

    @property
    def terms(self) -> tuple[TermTemplate, TermTemplate, TermTemplate]:
        return self.subject, self.predicate, self.object


@dataclass(frozen=True)
class Mapping:
    """Templates in order, and where each column first appears, for messages."""

    templates: tuple[Template, ...]
    named: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns used in the templates."""
        return tuple(name for name, _ in self.named)

    @property
    def has_row_node(self) -> bool:
        return any(isinstance(term, RowNode) for t in self.templates for term in t.terms)

    def refuse_column(self, name: str, names: list[str], what: str) -> MappingError:
        """The error for a missing or ambiguous column."""
        where = dict(self.named)[name]
        has = list_names(names)
        hint = ""
        column, sign, kind = name.rpartition(":")
        if sign and column in names:
            hint = f"; {kind!r} is not a type; the types are {', '.join((*TYPES, IRI_TYPE))}"
        return MappingError(f"{where}: {what} column {name!r}; its columns: {has}{hint}")
