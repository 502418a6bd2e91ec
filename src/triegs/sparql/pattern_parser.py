"""Group graph patterns: triples, paths, blank nodes, collections, filters, VALUES, windows.

A pattern becomes one flat list of atoms in the order of the text. Paths, ``[ … ]`` and ``( … )``
become chains of atoms through hidden variables. A pattern with ``{| triegs:time ?t |}`` becomes an
atom over an event graph, see `triegs.sparql.model.name_event_graph`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from triegs.names import BASE
from triegs.sparql.expression_parser import Condition, ExpressionParser
from triegs.sparql.lexer import Token, TokenKind
from triegs.sparql.model import Atom, Expression, Values, is_variable, name_event_graph
from triegs.sparql.reader import IRIS, NUMBERS, Reader, name_of
from triegs.sparql.scope import Unknown
from triegs.sparql.stream_clauses import read_block
from triegs.sparql.window import Window

MAX_PATTERNS = 500
#: The property of an annotation that is the time of the event.
TIME = f"<{BASE}time>"

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TYPE, _FIRST, _REST, _NIL = (f"<{_RDF}{name}>" for name in ("type", "first", "rest", "nil"))
_STATEMENT = "a triple pattern, FILTER, VALUES or '}'"
_NEXT = "'.', ';', ',' or a closing bracket after a triple pattern"
_MORE = "another predicate, '.' or a closing bracket"
_TIME = "triegs:time in an annotation"
_STEP = "an IRI, 'a', '^' or '(' in a path"
#: What may follow triples of a subject, besides a dot.
_AFTER_TRIPLES = ("}", "{", "FILTER", "VALUES", "WINDOW", "STREAM")


class _Step(NamedTuple):
    """One step of a path: over a predicate, possibly inverse."""

    predicate: str
    is_inverse: bool
    token: Token


class _Located(NamedTuple):
    """An atom, the offset of its predicate, and the window that it reads."""

    offset: int
    atom: Atom
    graph: str


@dataclass(slots=True)
class Body:
    """The atoms, VALUES and filters of a pattern."""

    atoms: tuple[Atom, ...] = ()
    graphs: tuple[str, ...] = ()
    values: list[Values] = field(default_factory=list)
    filters: list[Expression] = field(default_factory=list)
    #: The variables that it binds, without hidden ones.
    variables: set[str] = field(default_factory=set)


class PatternParser:
    """Reads the pattern of one query; variables not visible to a filter are added to `unknown`."""

    def __init__(self, reader: Reader, windows: dict[str, Window], unknown: list[Unknown]) -> None:
        self.reader = reader
        self.windows = windows
        self.unknown = unknown
        self.graph = ""
        self._located: list[_Located] = []
        self._values: list[Values] = []
        self._filters: list[Expression] = []
        self._fresh = 0
        self._pattern = 0
        self._pattern_of_label: dict[str, int] = {}

    def read(self) -> Body:
        """Read the pattern in curly brackets."""
        bound = self._group()
        located = sorted(self._located, key=lambda each: each.offset)
        atoms = self._name_blanks([each.atom for each in located])
        graphs = tuple(each.graph for each in located)
        return Body(atoms, graphs if any(graphs) else (), self._values, self._filters, bound)

    # Groups

    def _group(self) -> set[str]:
        """Read a group; returns the named variables that it binds."""
        reader = self.reader
        first_atom, first_block = len(self._located), len(self._values)
        waiting: list[Condition] = []
        reader.open("{")
        self._pattern += 1
        while reader.token.text != "}":
            word = reader.token.word
            if word == "FILTER":
                reader.advance()
                parser = ExpressionParser(reader, "in a FILTER; use HAVING")
                waiting.append(Condition(parser.read_constraint("FILTER"), parser))
            elif word == "VALUES":
                self._pattern += 1
                self._values.append(read_values(reader))
            elif word == "{":
                self._group()
            elif word in ("WINDOW", "STREAM"):
                self._window()
            else:
                self._triples()
                is_last = not reader.skip(".")
                if is_last and reader.token.word not in _AFTER_TRIPLES:
                    raise reader.unexpected(_NEXT)
                continue
            reader.skip(".")
        reader.close()
        self._pattern += 1
        terms = [term for located in self._located[first_atom:] for term in located.atom]
        bound = {term for term in terms if is_variable(term) and not term.startswith("?_:")}
        bound.update(name for block in self._values[first_block:] for name in block.variables)
        for condition in waiting:
            self._filters += condition.limited(bound, "FILTER", self.unknown)
        return bound

    def _window(self) -> None:
        """``WINDOW <w> { … }`` or ``STREAM <s> [ … ] { … }``"""
        if self.graph:
            token = self.reader.token
            raise self.reader.error(f"{token.word} inside another window", token, "window")
        self.graph = read_block(self.reader, self.windows)
        self._group()
        self.graph = ""

    # Triples

    def _triples(self) -> None:
        """A subject with its predicates and objects."""
        token = self.reader.token
        before = len(self._located)
        subject = self._node(_STATEMENT)
        has_triples = token.text in ("[", "(") and len(self._located) > before
        if not (has_triples and self.reader.token.word in (*_AFTER_TRIPLES, ".")):
            self._properties(subject, _MORE if has_triples else "a predicate")

    def _properties(self, subject: str, expected: str) -> None:
        """Predicates with their objects, separated by semicolons."""
        reader = self.reader
        while True:
            if reader.token.kind is TokenKind.VARIABLE:
                token = reader.advance()
                self._objects(subject, [_Step(name_of(token), False, token)])
            else:
                self._objects(subject, self._path(expected))
            if reader.token.text != ";":
                return
            while reader.skip(";"):
                pass
            if reader.token.word in (*_AFTER_TRIPLES, ".", "]"):
                return
            expected = _MORE

    def _objects(self, subject: str, path: list[_Step]) -> None:
        reader = self.reader
        while True:
            token = reader.token
            target = self._node("an object")
            if reader.token.text == "{|":
                self._add_timed(subject, path, target)
                if not reader.skip(","):
                    return
                continue
            stops = [subject, *(self._name("path") for _ in path[1:]), target]
            for step, start, end in zip(path, stops, stops[1:], strict=False):
                ends = (end, start) if step.is_inverse else (start, end)
                atom = Atom(ends[0], step.predicate, ends[1])
                self._add(atom, step.token, step.token if len(path) > 1 else token)
            if not reader.skip(","):
                return

    def _add_timed(self, subject: str, path: list[_Step], target: str) -> None:
        """``{| triegs:time ?t |}``: an atom over the events of its predicate."""
        reader, at = self.reader, self.reader.token
        predicate, is_inverse, token = path[0]
        if len(path) > 1 or is_inverse:
            raise reader.error("a path cannot be annotated", at, "annotation", "name its steps")
        if is_variable(predicate):
            raise reader.refusal("time of a variable predicate", token)
        reader.open("{|")
        if reader.token.kind is TokenKind.VARIABLE:
            raise reader.refusal("annotation", reader.token)
        if reader.token.kind not in IRIS:
            raise reader.unexpected(_TIME)
        named = reader.token
        if reader.constant() != TIME:
            raise reader.refusal("annotation", named)
        time = self._node("a variable for the time")
        if reader.token.text in (";", ","):
            raise reader.error("an annotation has one time", reader.token, "annotation")
        reader.close("'|}'")
        self._add(Atom(subject, time, target), token, at, name_event_graph(self.graph, predicate))

    def _add(self, atom: Atom, token: Token, at: Token, graph: str | None = None) -> None:
        """Add an atom, located at `token`; too many atoms are an error at `at`."""
        if len(self._located) == MAX_PATTERNS:
            message = f"the query has more than {MAX_PATTERNS} triple patterns"
            raise self.reader.error(message, at, "text", "split it into several queries")
        self._located.append(_Located(token.start, atom, self.graph if graph is None else graph))

    # Paths

    def _path(self, expected: str) -> list[_Step]:
        """A sequence of steps; those of inverse paths are reversed."""
        reader = self.reader
        steps: list[_Step] = []
        while True:
            is_inverse = bool(reader.skip("^"))
            found = self._path_primary(_STEP if is_inverse or steps else expected)
            if is_inverse:
                found = [step._replace(is_inverse=not step.is_inverse) for step in reversed(found)]
            steps += found
            token = reader.token
            counts = reader.after().kind in NUMBERS or reader.after().text == ","
            if token.text == "{" and counts:
                raise reader.refusal("path {n}", token)
            if token.text in ("*", "+", "?", "|"):
                raise reader.refusal(f"path {token.text}", token)
            if not reader.skip("/"):
                return steps

    def _path_primary(self, expected: str) -> list[_Step]:
        reader, token = self.reader, self.reader.token
        if token.text == "!":
            raise reader.refusal("path !", token)
        if token.text == "(":
            reader.open("(")
            steps = self._path(_STEP)
            reader.close("'/' or ')' in a path")
            return steps
        if token.text == "a":
            return [_Step(_TYPE, False, reader.advance())]
        if token.kind in IRIS:
            return [_Step(reader.constant(), False, token)]
        raise reader.unexpected(expected)

    # Nodes

    def _node(self, expected: str) -> str:
        """A term, or a blank node with its properties."""
        reader, token = self.reader, self.reader.token
        if token.kind is TokenKind.VARIABLE:
            reader.advance()
            return name_of(token)
        if reader.is_constant():
            return reader.constant()
        if token.kind is TokenKind.BLANK:
            if self._pattern_of_label.setdefault(token.text, self._pattern) != self._pattern:
                message = f"the blank node {token.text} is used in two basic graph patterns"
                raise reader.error(message, token, "blank node", "use a variable instead")
            reader.advance()
            return f"?{token.text}"
        if token.text == "[":
            reader.open("[")
            name = self._name("anon")
            if reader.token.text != "]":
                self._properties(name, "a predicate or ']'")
            reader.close(_NEXT)
            return name
        if token.text == "(":
            return self._collection()
        raise reader.unexpected(expected)

    def _collection(self) -> str:
        """``( … )``: a list cell per element."""
        reader = self.reader
        reader.open("(")
        head = link = "" if reader.token.text == ")" else self._name("anon")
        while link:
            token = reader.token
            item = self._node("an element or ')'")
            rest = "" if reader.token.text == ")" else self._name("anon")
            self._add(Atom(link, _FIRST, item), token, token)
            self._add(Atom(link, _REST, rest or _NIL), token, token)
            link = rest
        reader.close()
        return head or _NIL

    def _name(self, stem: str) -> str:
        """A name that no text can contain, until `_name_blanks` numbers it."""
        self._fresh += 1
        return f"?_:{stem} {self._fresh}"

    def _name_blanks(self, atoms: list[Atom]) -> tuple[Atom, ...]:
        """Number the hidden variables in the order of the atoms."""
        names: dict[str, str] = {}
        counts: dict[str, int] = {}
        taken = {f"?{label}" for label in self._pattern_of_label}
        for term in [term for atom in atoms for term in atom]:
            if term.startswith("?_:") and " " in term and term not in names:
                stem = term.split()[0]
                counts[stem] = counts.get(stem, 0) + 1
                while f"{stem}{counts[stem]}" in taken:
                    counts[stem] += 1
                names[term] = f"{stem}{counts[stem]}"
        return tuple(Atom(*(names.get(term, term) for term in atom)) for atom in atoms)


def read_values(reader: Reader) -> Values:
    """Read a VALUES block, starting at its keyword."""
    reader.advance()
    names: list[str] = []
    is_wide = reader.token.text == "("
    if is_wide:
        reader.open("(")
    while reader.token.kind is TokenKind.VARIABLE and (is_wide or not names):
        token = reader.advance()
        if name_of(token) in names:
            raise reader.error(f"duplicate variable {name_of(token)} in VALUES", token, "VALUES")
        names.append(name_of(token))
    if is_wide:
        reader.close("a variable or ')'")
    elif not names:
        raise reader.unexpected("'(' or a variable after 'VALUES'")
    reader.open("{")
    rows: list[tuple[str, ...]] = []
    while reader.token.text != "}":
        rows.append(_value_row(reader, len(names)) if is_wide else (_value(reader),))
    reader.close()
    return Values(tuple(names), tuple(rows))


def _value_row(reader: Reader, width: int) -> tuple[str, ...]:
    opening = reader.open("(", "'(' or '}'")
    row: list[str] = []
    while reader.token.text != ")":
        row.append(_value(reader))
    reader.close()
    if len(row) != width:
        message = f"a row of {len(row)} values for {width} variables"
        raise reader.error(message, opening, "VALUES")
    return tuple(row)


def _value(reader: Reader) -> str:
    if not reader.is_constant():
        raise reader.unexpected("an IRI or a literal")
    return reader.constant()
