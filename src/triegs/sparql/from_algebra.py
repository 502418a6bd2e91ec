"""SPARQL algebra to the query model, and the rules that rdflib leaves to its users.

Decided here: the flat list of atoms in the order of the text, the scope of every filter, what
``SELECT *`` selects, what a grouped query may project, and where trailing VALUES belong.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from rdflib import BNode, Literal, URIRef, Variable
from rdflib.paths import InvPath, SequencePath

from triegs.errors import QueryError
from triegs.sparql.expressions import evaluate
from triegs.sparql.follow import Zone
from triegs.sparql.lexer import TokenKind
from triegs.sparql.model import (
    Aggregate,
    Atom,
    Call,
    Column,
    Duplicates,
    Expression,
    Form,
    Grouping,
    Query,
    Values,
    is_variable,
)
from triegs.sparql.scope import conjuncts, limit_scope, substitute
from triegs.sparql.source import Source
from triegs.sparql.values import ExpressionError

#: Operators may nest this deep (``1 + 1 + 1`` nests twice); ``&&`` and ``||`` chains do not nest.
MAX_DEPTH = 100

_WRAPPERS = {
    "Project": None,
    "Slice": None,
    "Distinct": Duplicates.DISTINCT,
    "Reduced": Duplicates.REDUCED,
}
_ARGUMENTS = {
    "Builtin_REGEX": ("text", "pattern", "flags"),
    "Builtin_sameTerm": ("arg1", "arg2"),
    "Builtin_LANGMATCHES": ("arg1", "arg2"),
    "Builtin_CONTAINS": ("arg1", "arg2"),
    "Builtin_STRSTARTS": ("arg1", "arg2"),
    "Builtin_STRENDS": ("arg1", "arg2"),
}
_CHAINS = {"ConditionalOrExpression": "||", "ConditionalAndExpression": "&&"}
_UNARY = {"UnaryNot": "!", "UnaryMinus": "-", "UnaryPlus": "+"}
_SAME_FUNCTION = {"ISURI": "ISIRI"}


def to_query(algebra: Any, source: Source) -> Query:
    """The query that the algebra means; `QueryError` where its clauses do not fit together."""
    return _Translation(source).query(algebra)


@dataclass
class Body:
    """What a group matches; `variables` holds the named ones."""

    atoms: list[tuple[int, Atom, str]] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    filters: list[Expression] = field(default_factory=list)
    variables: set[str] = field(default_factory=set)

    def absorb(self, inner: Body) -> None:
        self.atoms += inner.atoms
        self.values += inner.values
        self.filters += inner.filters
        self.variables |= inner.variables


class _Translation:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.names = {number: name for name, number in source.variables.items()}
        self.labels = {f"b{number}": f"?{label}" for label, number in source.blanks.items()}
        self.bare_blocks = [b for b in source.blocks if not (b.rows and b.names)]
        self.results: dict[str, Any] = {}

    def query(self, algebra: Any) -> Query:
        node = algebra.p
        duplicates, limit, offset = Duplicates.KEEP, None, 0
        while node.name in _WRAPPERS:
            duplicates = _WRAPPERS[node.name] or duplicates
            if node.name == "Slice":
                offset, limit = node.start, node.length
            node = node.p
        columns: list[tuple[str, Any]] = []
        while node.name == "Extend":
            columns.insert(0, (self.name(node.var), node.expr))
            node = node.p
        trailing: Values | None = None
        last = self.source.blocks[-1] if self.source.blocks else None
        is_trailing = last is not None and self.source.zones[last.token] is Zone.TOP
        if is_trailing and node.name == "Join":
            trailing = self.values(node.p2)
            node = node.p1
        elif is_trailing:
            # rdflib leaves out a join with an empty pattern.
            trailing = self.values(node)
            node = None
        if self._is_grouped(node):
            return self._grouped(algebra, node, columns, trailing, duplicates, limit, offset)
        if columns:
            raise self.source.refusal("select expression", self.source.named[0].opening)
        body = Body() if node is None else self.body(node)
        if trailing is not None:
            body.values.append(trailing)
            body.variables.update(trailing.variables)
        head = self._head(algebra, body)
        return self._make(algebra, head, body, duplicates, limit, offset, None)

    def _make(
        self, algebra: Any, head: tuple[str, ...], body: Body, duplicates: Duplicates,
        limit: int | None, offset: int, grouping: Grouping | None,
    ) -> Query:  # fmt: skip
        form = Form.ASK if algebra.name == "AskQuery" else Form.SELECT
        placed = sorted(body.atoms, key=lambda each: each[0])
        atoms = self._name_blanks([atom for _, atom, _ in placed])
        graphs = tuple(graph for _, _, graph in placed)
        return Query(
            form, head, atoms, tuple(body.values), tuple(body.filters), duplicates, limit, offset,
            grouping, self.source.lexer.original, graphs if any(graphs) else (),
            tuple(self.source.windows.items()), self.source.output,
        )  # fmt: skip

    def _name_blanks(self, atoms: list[Atom]) -> tuple[Atom, ...]:
        """Number the nodes that the text does not name, in the order of the atoms."""
        names: dict[str, str] = {}
        counts: dict[str, int] = {}
        taken = set(self.labels.values())
        for term in [term for atom in atoms for term in atom]:
            if term.startswith(("?_:path ", "?_:anon ")) and term not in names:
                stem = term.split()[0]
                counts[stem] = counts.get(stem, 0) + 1
                while f"{stem}{counts[stem]}" in taken:
                    counts[stem] += 1
                names[term] = f"{stem}{counts[stem]}"
        return tuple(Atom(*(names.get(term, term) for term in atom)) for atom in atoms)

    def _head(self, algebra: Any, body: Body) -> tuple[str, ...]:
        if algebra.name == "AskQuery":
            return ()
        star = self._star()
        if star is None:
            return tuple(dict.fromkeys(self.name(v) for v in algebra.PV))
        return tuple(name for name in self.source.variables if name in body.variables)

    def _star(self) -> Any:
        for token, zone in zip(self.source.tokens, self.source.zones, strict=True):
            if zone is Zone.TOP and token.text == "*":
                return token
        return None

    # Terms

    def name(self, variable: Any) -> str:
        return self.names[int(str(variable)[1:])]

    def term(self, part: Any) -> str:
        if isinstance(part, Variable):
            return self.name(part)
        if isinstance(part, BNode):
            label = str(part)
            # A name that no text can give, until `_name_blanks` numbers it.
            fresh = f"?_:{label}" if label.startswith("path ") else f"?_:anon {label}"
            return self.labels.get(label, fresh)
        number = self.token_of(part)
        return f"<{part}>" if number is None else self.source.constants[number]

    @staticmethod
    def token_of(part: Any) -> int | None:
        """The token that a constant was written for; None for rdf:type, rdf:first and the like."""
        if isinstance(part, Literal):
            return int(part)
        return int(part[2:]) if isinstance(part, URIRef) and part.startswith("t:") else None

    # Patterns

    def body(self, node: Any) -> Body:
        found = Body()
        if node.name == "BGP":
            for triple in node.triples:
                found.atoms += self._atoms(*triple)
            terms = [term for _, atom, _ in found.atoms for term in atom]
            found.variables = {t for t in terms if is_variable(t) and not t.startswith("?_:")}
        elif node.name == "Join":
            found.absorb(self.body(node.p1))
            found.absorb(self.body(node.p2))
        elif node.name == "Graph":  # the block of a window
            found = self.body(node.p)
            name = self.term(node.term)
            found.atoms = [(place, atom, name) for place, atom, _ in found.atoms]
        elif node.name == "ToMultiSet":
            block = self.values(node)
            found.values.append(block)
            found.variables = set(block.variables)
        elif node.name == "Filter":
            found = self.body(node.p)
            parts = conjuncts(self.whole(node.expr))
            found.filters += [limit_scope(part, found.variables) for part in parts]
        else:
            raise self.source.error(f"{node.name} is not supported", self.source.tokens[0])
        return found

    def _atoms(self, subject: Any, path: Any, obj: Any) -> list[tuple[int, Atom, str]]:
        """The atoms of a triple or a path, each with its place in the text."""
        if isinstance(path, InvPath):
            return self._atoms(obj, path.arg, subject)
        if isinstance(path, SequencePath):
            stops = [subject, *(BNode(f"path {BNode()}") for _ in path.args[1:]), obj]
            steps = zip(stops, path.args, stops[1:], strict=False)
            return [atom for a, part, b in steps for atom in self._atoms(a, part, b)]
        parts = (subject, path, obj)
        places = [n for n in map(self.token_of, parts) if n is not None]
        place = self.token_of(path)
        if place is None:
            place = min(places, default=len(self.source.tokens))
        return [(place, Atom(*map(self.term, parts)), "")]

    def values(self, node: Any) -> Values:
        """The block as it was written: rdflib forgets the variables of an empty one."""
        rows = [] if isinstance(node.p, list) else node.p.res
        numbers = [self.token_of(cell) for row in rows for cell in row.values()]
        if numbers:
            block = [b for b in self.source.blocks if b.token < (numbers[0] or 0)][-1]
        else:
            block = self.bare_blocks.pop(0)
        return Values(block.names, block.rows)

    # Expressions

    def whole(self, part: Any) -> Expression:
        """An expression that nests no deeper than its evaluation can follow."""
        found = self.expression(part)
        level: list[Expression] = [found]
        for _ in range(MAX_DEPTH):
            calls = [e for e in level if isinstance(e, Call)]
            level = [argument for call in calls for argument in call.arguments]
        if level:
            place = self.source.zones.index(Zone.EXPRESSION)
            message = f"operators nest deeper than {MAX_DEPTH}"
            raise self.source.error(message, self.source.tokens[place], "nesting")
        return found

    def expression(self, part: Any) -> Expression:
        if isinstance(part, Variable):
            return self._result(part) if str(part) in self.results else self.name(part)
        if isinstance(part, Literal | URIRef):
            return self.term(part)
        kind = part.name
        if kind in _CHAINS:
            return _chain(_CHAINS[kind], [self.expression(p) for p in [part.expr, *part.other]])
        if kind in _UNARY:
            return Call(_UNARY[kind], (self.expression(part.expr),))
        if kind == "RelationalExpression":
            others = part.other if isinstance(part.other, list) else [part.other]
            if part.other == URIRef("http://www.w3.org/1999/02/22-rdf-syntax-ns#nil"):
                others = []
            return Call(part.op, tuple(map(self.expression, [part.expr, *others])))
        if kind in ("AdditiveExpression", "MultiplicativeExpression"):
            steps = zip(part.op, map(self.expression, part.other), strict=True)
            first = self.expression(part.expr)
            return reduce(lambda left, step: Call(step[0], (left, step[1])), steps, first)
        if kind.startswith("Builtin_"):
            return self._function(part)
        raise self.source.error(f"{kind} is not supported", self.source.tokens[0])

    def _function(self, part: Any) -> Expression:
        keys = _ARGUMENTS.get(part.name, ("arg",))
        given = [part.get(key) for key in keys if key in part and part[key] is not None]
        name = part.name.removeprefix("Builtin_").upper()
        arguments = tuple(map(self.expression, given))
        if name == "REGEX":
            self._check_pattern(given, arguments)
        return Call(_SAME_FUNCTION.get(name, name), arguments)

    def _check_pattern(self, given: list[Any], arguments: tuple[Expression, ...]) -> None:
        """A constant pattern that is wrong would silently match nothing: say so instead."""
        if all(isinstance(a, str) and not is_variable(a) for a in arguments[1:]):
            try:
                evaluate(Call("REGEX", ('""', *arguments[1:])), {})
            except ExpressionError as problem:
                token = self.source.tokens[self.token_of(given[1]) or 0]
                raise self.source.error(f"REGEX: {problem}", token, "REGEX") from None

    # Grouping

    @staticmethod
    def _is_grouped(node: Any) -> bool:
        while node is not None and node.name in ("Filter", "Extend"):
            node = node.p
        return node is not None and node.name == "AggregateJoin"

    def _result(self, variable: Any) -> Expression:
        """What rdflib's name for an aggregate stands for; a plain key is sampled by it."""
        found = self.results[str(variable)]
        kind = found.name.removeprefix("Aggregate_").upper()
        if kind == "SAMPLE":
            return self.name(found.vars)
        argument = None if found.vars == "*" else self.expression(found.vars)
        distinct = Duplicates.DISTINCT if found.distinct else Duplicates.KEEP
        return Aggregate(kind, argument, distinct)

    def _grouped(
        self, algebra: Any, node: Any, columns: list[tuple[str, Any]], trailing: Values | None,
        duplicates: Duplicates, limit: int | None, offset: int,
    ) -> Query:  # fmt: skip
        having: list[Any] = []
        while node.name != "AggregateJoin":
            having += [node.expr] if node.name == "Filter" else []
            node = node.p
        self.results = {str(found.res): found for found in node.A}
        group = node.p
        inner = group.p
        extends: list[Any] = []
        while inner.name == "Extend":
            extends.insert(0, inner)
            inner = inner.p
        body = self.body(inner)
        star = self._star()
        if star is not None:
            hint = "name the keys and aggregates"
            raise self.source.error("SELECT * cannot be grouped", star, "SELECT *", hint)
        self._check_names(body)
        keys, meanings = self._keys(group.expr or [], extends, body)
        known = {key.name for key in keys}
        given = dict(columns)
        shown = {}
        is_ask = algebra.name == "AskQuery"
        for variable in [] if is_ask else algebra.PV:
            name = self.name(variable)
            expression = self.whole(given[name]) if name in given else name
            shown[name] = Column(
                name, self._over_group(expression, known, body, meanings, "SELECT")
            )
        conditions = tuple(
            self._over_group(part, known, body, meanings, "HAVING")
            for whole in having
            for part in conjuncts(self.whole(whole))
        )
        grouping = Grouping(keys, tuple(shown.values()), conditions)
        if trailing is not None:
            if not _commutes(trailing, grouping):
                token = self.source.tokens[self.source.blocks[-1].token]
                raise self.source.refusal("VALUES after aggregates", token)
            body.values.append(trailing)
        return self._make(algebra, tuple(shown), body, duplicates, limit, offset, grouping)

    def _keys(
        self, conditions: list[Any], extends: list[Any], body: Body
    ) -> tuple[tuple[Column, ...], dict[str, Expression]]:
        """The key columns, and what each name given in GROUP BY stands for over the body."""
        columns: dict[str, Column] = {}
        meanings: dict[str, Expression] = {}
        waiting = list(extends)
        unnamed = 0
        for condition in conditions:
            if waiting and waiting[0].var == condition:
                expression = self.whole(waiting.pop(0).expr)
                name = self.name(condition) if condition is not None else ""
            else:
                expression = self.expression(condition)
                name = expression if isinstance(expression, str) else ""
            meaning = substitute(limit_scope(expression, {*body.variables, *meanings}), meanings)
            if name and name != expression:
                meanings[name] = meaning
            if not name:
                unnamed += 1
                name = f"?_:key{unnamed}"
            columns.setdefault(name, Column(name, meaning))
        return tuple(columns.values()), meanings

    def _check_names(self, body: Body) -> None:
        """A name after AS must be new: not in the body, not another column or key."""
        taken = set(body.variables)
        plain = {
            f"?{token.text[1:]}"
            for token, zone, clause in zip(
                self.source.tokens, self.source.zones, self.source.clauses, strict=True
            )
            if zone is Zone.TOP and token.kind is TokenKind.VARIABLE and clause == "SELECT"
        }
        for item in sorted(self.source.named, key=lambda item: item.clause != "GROUP"):
            name = f"?{item.name.text[1:]}"
            if name in taken or (item.clause == "SELECT" and name in plain):
                message = f"{name} is used already, so AS cannot name it"
                raise self.source.error(message, item.name, "AS", "choose another name")
            taken.add(name)

    def _over_group(
        self, expression: Expression, keys: set[str], body: Body,
        meanings: dict[str, Expression], clause: str,
    ) -> Expression:  # fmt: skip
        """An output expression: outside its aggregates it speaks of keys only."""
        if isinstance(expression, Aggregate):
            if expression.argument is None:
                return expression
            argument = limit_scope(expression.argument, {*body.variables, *meanings})
            return replace(expression, argument=substitute(argument, meanings))
        if isinstance(expression, Call):
            parts = expression.arguments
            inner = tuple(self._over_group(p, keys, body, meanings, clause) for p in parts)
            return Call(expression.operator, inner)
        if is_variable(expression) and expression not in keys:
            raise self._ungrouped(expression, clause)
        return expression

    def _ungrouped(self, name: str, clause: str) -> QueryError:
        token = self.source.find(TokenKind.VARIABLE, name, (clause,))
        message = f"{name} is neither a grouping key nor inside an aggregate"
        hint = f"add it to GROUP BY, or write MIN({name})"
        return self.source.error(message, token, "GROUP BY", hint)


def _chain(operator: str, parts: list[Expression]) -> Call:
    """``&&`` and ``||`` are associative, errors and all: nested ones become one."""
    flat: list[Expression] = []
    for part in parts:
        same = isinstance(part, Call) and part.operator == operator
        flat += part.arguments if isinstance(part, Call) and same else [part]
    return Call(operator, tuple(flat))


def _commutes(trailing: Values, grouping: Grouping) -> bool:
    """Whether joining VALUES before the grouping gives what SPARQL gives by joining it after."""
    plain = {column.name for column in grouping.keys if column.name == column.expression}
    return (
        bool(grouping.keys)
        and set(trailing.variables) <= plain
        and len(set(trailing.rows)) == len(trailing.rows)
    )
