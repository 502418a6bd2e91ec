"""What may stand next in a pattern or an expression: enough grammar to name an exact place.

rdflib decides what a text means; where it gives up it says little about where. Most slips are
local, a missing object, two operands in a row, so a table of what may follow what finds them at
the token. What the table lets through and rdflib does not is still an error, at a coarser place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from triegs.sparql.lexer import Token


class Zone(Enum):
    """What a bracket holds, and so what its symbols mean."""

    TOP = "the query"
    PATTERN = "a pattern"
    EXPRESSION = "an expression"
    DATA = "VALUES"


class Expect(Enum):
    """What the grammar waits for; the value says it in an error message."""

    ANYTHING = "anything"
    STATEMENT = "a triple pattern, FILTER, VALUES or '}'"
    SUBJECT_DONE = "a predicate"
    PREDICATE = "a predicate or ']'"
    MORE = "another predicate, '.' or a closing bracket"
    STEP = "an IRI, 'a', '^' or '(' in a path"
    OBJECT = "an object"
    PATH_OR_OBJECT = "an object "
    NEXT = "'.', ';', ',' or a closing bracket after a triple pattern"
    INNER_STEP = "an IRI, 'a', '^' or '(' in a path "
    PATH_END = "'/' or ')' in a path"
    ITEM = "an element or ')'"
    CONSTRAINT = "'(' or a function after FILTER"
    CALL = "'(' after the name of a function"
    LIST = "'(' after IN"
    VARIABLE = "a variable"
    OPERAND = "an expression"
    PRIMARY = "an expression "
    OPERATOR = "')' or an operator"


_E = Expect
_NODES = ("variable", "iri", "literal", "blank")
_PREDICATES = {
    "variable": _E.OBJECT,
    "iri": _E.PATH_OR_OBJECT,
    "a": _E.PATH_OR_OBJECT,
    "^": _E.STEP,
}
_OBJECTS = dict.fromkeys(_NODES, _E.NEXT)
_STATEMENT_ENDS = {".": _E.STATEMENT, "FILTER": _E.CONSTRAINT, "VALUES": _E.STATEMENT}
_PRIMARIES = {**dict.fromkeys(("variable", "iri", "literal"), _E.OPERATOR), "function": _E.CALL}
_BINARY = ("||", "&&", "=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", ",")

#: From what is expected, over a kind of token, to what is expected after it.
FOLLOW: dict[Expect, dict[str, Expect]] = {
    _E.STATEMENT: {**dict.fromkeys(_NODES, _E.SUBJECT_DONE), **_STATEMENT_ENDS},
    _E.SUBJECT_DONE: _PREDICATES,
    _E.PREDICATE: _PREDICATES,
    _E.MORE: {**_PREDICATES, **_STATEMENT_ENDS, ";": _E.MORE},
    _E.STEP: {"iri": _E.PATH_OR_OBJECT, "a": _E.PATH_OR_OBJECT, "^": _E.STEP},
    _E.OBJECT: _OBJECTS,
    _E.PATH_OR_OBJECT: {**_OBJECTS, "/": _E.STEP},
    _E.NEXT: {**_STATEMENT_ENDS, ",": _E.OBJECT, ";": _E.MORE},
    _E.INNER_STEP: {"iri": _E.PATH_END, "a": _E.PATH_END, "^": _E.INNER_STEP},
    _E.PATH_END: {"/": _E.INNER_STEP},
    _E.ITEM: dict.fromkeys(_NODES, _E.ITEM),
    _E.CONSTRAINT: {"function": _E.CALL},
    _E.CALL: {},
    _E.LIST: {},
    _E.VARIABLE: {"variable": _E.OPERATOR},
    _E.PRIMARY: _PRIMARIES,
    _E.OPERAND: {
        **_PRIMARIES, "!": _E.PRIMARY, "-": _E.PRIMARY, "+": _E.PRIMARY,
        "DISTINCT": _E.OPERAND, "*": _E.OPERATOR,
    },
    _E.OPERATOR: {
        **dict.fromkeys(_BINARY, _E.OPERAND),
        "IN": _E.LIST, "NOT": _E.OPERATOR, "AS": _E.VARIABLE, "signed": _E.OPERATOR,
    },
}  # fmt: skip

#: What an opening bracket holds where something is expected, and what is expected after it.
OPEN: dict[tuple[str, Expect], tuple[Expect, Expect]] = {
    **{("{", at): (_E.STATEMENT, _E.STATEMENT) for at in (_E.STATEMENT, _E.NEXT, _E.MORE)},
    ("[", _E.STATEMENT): (_E.PREDICATE, _E.SUBJECT_DONE),
    ("(", _E.STATEMENT): (_E.ITEM, _E.SUBJECT_DONE),
    **{("[", at): (_E.PREDICATE, _E.NEXT) for at in (_E.OBJECT, _E.PATH_OR_OBJECT)},
    **{("(", at): (_E.ITEM, _E.NEXT) for at in (_E.OBJECT, _E.PATH_OR_OBJECT)},
    ("[", _E.ITEM): (_E.PREDICATE, _E.ITEM),
    ("(", _E.ITEM): (_E.ITEM, _E.ITEM),
    **{
        ("(", at): (_E.INNER_STEP, _E.PATH_OR_OBJECT)
        for at in (_E.SUBJECT_DONE, _E.PREDICATE, _E.MORE, _E.STEP)
    },
    ("(", _E.INNER_STEP): (_E.INNER_STEP, _E.PATH_END),
    ("(", _E.CONSTRAINT): (_E.OPERAND, _E.STATEMENT),
    **{("(", at): (_E.OPERAND, _E.OPERATOR) for at in (_E.OPERAND, _E.PRIMARY, _E.LIST)},
    ("(", _E.CALL): (_E.OPERAND, _E.OPERATOR),
}

#: Where a closing bracket may stand; an empty pair of some brackets may close at once.
CLOSE = {
    "}": (_E.STATEMENT, _E.NEXT, _E.MORE),
    "]": (_E.NEXT, _E.MORE),
    ")": (_E.ITEM, _E.PATH_END, _E.OPERATOR),
}


@dataclass(slots=True)
class Bracket:
    """An open bracket: where it stands, and what is expected next inside it."""

    token: Token
    zone: Zone
    #: The clause it stands in: SELECT, WHERE, FILTER, GROUP, HAVING, or an aggregate's name.
    clause: str
    expect: Expect
    #: What was expected where it opened.
    opened_at: Expect
    #: The function whose arguments it holds.
    call: Token | None = None
    commas: int = 0
    is_empty: bool = True

    def accept(self, kind: str) -> bool:
        """Step over a token of that kind; False if it may not stand here."""
        if self.expect is not Expect.ANYTHING:
            after = FOLLOW[self.expect].get(kind)
            if after is None:
                return False
            self.expect = after
        self.commas += kind == ","
        self.is_empty = False
        return True

    def may_close(self) -> bool:
        if self.is_empty and self.expect in (Expect.PREDICATE, Expect.OPERAND, Expect.VARIABLE):
            is_list = self.opened_at is Expect.LIST or self.call is not None
            return self.expect is Expect.PREDICATE or is_list
        closing = {"(": ")", "[": "]", "{": "}"}[self.token.text]
        return self.expect is Expect.ANYTHING or self.expect in CLOSE[closing]
