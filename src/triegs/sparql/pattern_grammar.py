"""Group patterns: text to one flat list of atoms, VALUES blocks and filters.

Groups only join here, so nested groups flatten into their parent. What a group leaves behind is
the scope of its filters: a variable that the group does not bind is unbound in them, whatever
the parent binds, and is replaced before the group dissolves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from triegs.sparql.cursor import Cursor
from triegs.sparql.expression_grammar import ExpressionParser
from triegs.sparql.expressions import UNBOUND
from triegs.sparql.lexer import TokenKind
from triegs.sparql.model import Aggregate, Atom, Call, Expression, Values, is_variable
from triegs.sparql.refusals import Place, refused_words
from triegs.terms import RDF

_REFUSED = refused_words(Place.PATTERN)
_FIRST, _REST, _NIL, _TYPE = (f"<{RDF}{name}>" for name in ("first", "rest", "nil", "type"))


@dataclass
class Body:
    """What a group matches. ``variables`` holds the named ones, in order of appearance."""

    atoms: list[Atom] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    filters: list[Expression] = field(default_factory=list)
    variables: dict[str, None] = field(default_factory=dict)

    def absorb(self, inner: Body) -> None:
        self.atoms += inner.atoms
        self.values += inner.values
        self.filters += inner.filters
        self.variables.update(inner.variables)


@dataclass(frozen=True)
class Sequence:
    """``/``: one step after the other."""

    steps: tuple[Path, ...]


@dataclass(frozen=True)
class Inverse:
    """``^``: the step walked backwards."""

    path: Path


Path = str | Sequence | Inverse


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts of a filter that may be checked apart: a row stays iff all of them are true.

    >>> conjuncts(Call("&&", ("?x", Call("||", ("?y", "?z")))))
    ['?x', Call(operator='||', arguments=('?y', '?z'))]
    """
    if isinstance(expression, Call) and expression.operator == "&&":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]


def limit_scope(expression: Expression, bound: Collection[str]) -> Expression:
    """The expression with every variable that is not bound replaced by ``unbound``.

    >>> limit_scope(Call("=", ("?x", "?y")), {"?x"})
    Call(operator='=', arguments=('?x', Call(operator='unbound', arguments=())))
    """
    if isinstance(expression, str):
        return UNBOUND if is_variable(expression) and expression not in bound else expression
    if isinstance(expression, Aggregate):
        if expression.argument is None:
            return expression
        return replace(expression, argument=limit_scope(expression.argument, bound))
    return Call(expression.operator, tuple(limit_scope(a, bound) for a in expression.arguments))


class PatternParser:
    """Reads group patterns. One per query: blank-node labels are the query's."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._block = 0
        self._blocks_of_labels: dict[str, int] = {}

    def group(self) -> Body:
        """``{ ... }``, its filters resolved."""
        cursor = self.cursor
        cursor.expect("{")
        body = Body()
        filters: list[Expression] = []
        with cursor.nested():
            if cursor.is_at("SELECT"):
                raise cursor.refusal("sub-select")
            self._block += 1
            while not cursor.is_at("}"):
                self._part(body, filters)
            self._block += 1
            cursor.advance()
        body.filters += [
            limit_scope(part, body.variables) for whole in filters for part in conjuncts(whole)
        ]
        return body

    def _part(self, body: Body, filters: list[Expression]) -> None:
        cursor = self.cursor
        cursor.refuse_words(_REFUSED)
        if cursor.is_at("{"):
            body.absorb(self.group())
            if cursor.is_at("UNION"):
                raise cursor.refusal("UNION")
            cursor.accept(".")
        elif cursor.accept("FILTER"):
            parser = ExpressionParser(cursor, aggregates="in a FILTER; use HAVING")
            filters.append(parser.constraint("after FILTER"))
            cursor.accept(".")
        elif cursor.accept("VALUES"):
            self._block += 1
            block = parse_values(cursor)
            body.values.append(block)
            body.variables.update(dict.fromkeys(block.variables))
            cursor.accept(".")
        else:
            self._triples(body)
            if not cursor.accept(".") and not self._at_non_triples():
                raise cursor.expected("'.', ';', ',' or '}' after a triple pattern")

    def _at_non_triples(self) -> bool:
        return self.cursor.is_at("}", "{", "FILTER", "VALUES", *_REFUSED)

    # Triples

    def _triples(self, body: Body) -> None:
        """One subject with its properties."""
        cursor = self.cursor
        bare = cursor.is_at("[", "(")
        before = len(body.atoms)
        subject = self._node(body, body.atoms, "a triple pattern, FILTER, VALUES or '}'")
        if bare and len(body.atoms) > before and (cursor.is_at(".") or self._at_non_triples()):
            return
        self._properties(subject, body, body.atoms)

    def _properties(self, subject: str, body: Body, atoms: list[Atom]) -> None:
        cursor = self.cursor
        while True:
            path = self._verb(body)
            while True:
                inner: list[Atom] = []
                node = self._node(body, inner, "an object")
                self._emit(subject, path, node, atoms)
                atoms += inner
                if not cursor.accept(","):
                    break
            if not cursor.accept(";"):
                return
            while cursor.accept(";"):
                pass
            if cursor.is_at(".", "]") or self._at_non_triples():
                return

    def _node(self, body: Body, atoms: list[Atom], what: str) -> str:
        """A subject or object; the atoms of a nested ``[...]`` or ``(...)`` go to ``atoms``."""
        cursor = self.cursor
        if cursor.is_at_kind(TokenKind.VARIABLE):
            return self._variable(body)
        if cursor.is_at_constant():
            return cursor.constant()
        if cursor.is_at_kind(TokenKind.BLANK):
            return self._labelled()
        if cursor.is_at("["):
            return self._bracketed(body, atoms)
        if cursor.is_at("("):
            return self._collection(body, atoms)
        raise cursor.expected(what)

    def _variable(self, body: Body) -> str:
        name = self.cursor.variable()
        body.variables[name] = None
        return name

    def _labelled(self) -> str:
        token = self.cursor.advance()
        if self._blocks_of_labels.setdefault(token.text, self._block) != self._block:
            message = f"the blank node {token.text} is used in two basic graph patterns"
            raise self.cursor.error(message, token, "blank node", "use a variable instead")
        return "?" + token.text

    def _bracketed(self, body: Body, atoms: list[Atom]) -> str:
        cursor = self.cursor
        cursor.expect("[")
        node = cursor.fresh("anon")
        with cursor.nested():
            if not cursor.is_at("]"):
                self._properties(node, body, atoms)
            cursor.expect("]")
        return node

    def _collection(self, body: Body, atoms: list[Atom]) -> str:
        cursor = self.cursor
        cursor.expect("(")
        if cursor.accept(")"):
            return _NIL
        head = cell = cursor.fresh("list")
        with cursor.nested():
            while True:
                inner: list[Atom] = []
                atoms.append(Atom(cell, _FIRST, self._node(body, inner, "an element or ')'")))
                atoms += inner
                if cursor.accept(")"):
                    break
                following = cursor.fresh("list")
                atoms.append(Atom(cell, _REST, following))
                cell = following
        atoms.append(Atom(cell, _REST, _NIL))
        return head

    # Paths

    def _verb(self, body: Body) -> Path:
        cursor = self.cursor
        if cursor.is_at_kind(TokenKind.VARIABLE):
            return self._variable(body)
        if not (cursor.is_at_iri() or cursor.is_at("^", "(", "!") or cursor.token.text == "a"):
            raise cursor.expected("a predicate")
        return self._path()

    def _path(self) -> Path:
        steps = [self._step()]
        while self.cursor.accept("/"):
            steps.append(self._step())
        if self.cursor.is_at("|"):
            raise self.cursor.refusal("path |")
        return steps[0] if len(steps) == 1 else Sequence(tuple(steps))

    def _step(self) -> Path:
        cursor = self.cursor
        if cursor.accept("^"):
            return Inverse(self._primary_path())
        return self._primary_path()

    def _primary_path(self) -> Path:
        cursor = self.cursor
        path: Path
        if cursor.is_at("!"):
            raise cursor.refusal("path !")
        if cursor.accept("("):
            with cursor.nested():
                path = self._path()
                cursor.expect(")")
        elif cursor.token.text == "a":
            cursor.advance()
            path = _TYPE
        else:
            path = f"<{cursor.bare_iri()}>"
        if cursor.is_at("*", "+", "?"):
            raise cursor.refusal(f"path {cursor.token.text}")
        return path

    def _emit(self, subject: str, path: Path, node: str, atoms: list[Atom]) -> None:
        """The atoms of a path between two nodes, with a fresh variable between two steps."""
        if isinstance(path, Inverse):
            self._emit(node, path.path, subject, atoms)
        elif isinstance(path, Sequence):
            between = [self.cursor.fresh("path") for _ in path.steps[1:]]
            starts, ends = [subject, *between], [*between, node]
            for start, step, end in zip(starts, path.steps, ends, strict=True):
                self._emit(start, step, end, atoms)
        else:
            atoms.append(Atom(subject, path, node))


def parse_values(cursor: Cursor) -> Values:
    """What follows the word VALUES."""
    if cursor.is_at_kind(TokenKind.VARIABLE):
        names = [cursor.variable()]
        rows = list(_single_column(cursor))
        return Values(tuple(names), tuple(rows))
    cursor.expect("(", "or a variable after 'VALUES'")
    names = []
    while not cursor.is_at(")"):
        token = cursor.token
        name = cursor.variable()
        if name in names:
            raise cursor.error(f"{name} is twice in one VALUES", token, "VALUES")
        names.append(name)
    cursor.advance()
    return Values(tuple(names), tuple(_wide_rows(cursor, len(names))))


def _single_column(cursor: Cursor) -> Iterable[tuple[str, ...]]:
    cursor.expect("{")
    while not cursor.accept("}"):
        yield (_value(cursor),)


def _wide_rows(cursor: Cursor, width: int) -> Iterable[tuple[str, ...]]:
    cursor.expect("{")
    while not cursor.accept("}"):
        opening = cursor.expect("(", "or '}'")
        row: list[str] = []
        while not cursor.accept(")"):
            row.append(_value(cursor))
        if len(row) != width:
            message = f"a row of {len(row)} values for {width} variables"
            raise cursor.error(message, opening, "VALUES")
        yield tuple(row)


def _value(cursor: Cursor) -> str:
    if cursor.is_at("UNDEF"):
        raise cursor.refusal("UNDEF")
    if not cursor.is_at_constant():
        raise cursor.expected("an IRI or a literal")
    return cursor.constant()
