"""A plan as text for a terminal of 80 columns; only names longer than that are wider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triegs.compiler.plan import Access, Alias, Index, Plan, Role, Static
from triegs.explain.facts import (
    CLASSES,
    Runs,
    describe_storage,
    describe_totals,
    place_filters,
)
from triegs.explain.lines import WIDTH, display_width, fold, fold_list, fold_text
from triegs.explain.notation import Notation, inputs_of, plain, top_down
from triegs.explain.tree import draw_tree
from triegs.sparql.model import Duplicates, Form, Query

INDENT = "  "
LABELS = 11
PURPOSES = {
    Access.PRIMARY: "the value of a tuple, to evaluate a rule",
    Access.SECONDARY: "the live tuples, to enumerate",
    Access.TERTIARY: "the tuples that a change below touches, live or not, to maintain",
}


def explain_text(plan: Plan) -> str:
    """Everything about the plan, section by section; ends with a newline."""
    notation = Notation(plan)
    lines = list(_summary(notation)) + list(_cost(plan))
    for title, section in (
        ("Join tree", _tree(notation)),
        ("Nodes", _nodes(notation)),
        ("Access paths", _access_paths(notation)),
        ("Indexes", _indexes(notation)),
        ("Enumeration", _enumeration(notation)),
        ("Filters", _filters(notation)),
        ("Result", _result(notation)),
        ("Names", _names(notation)),
    ):
        found = list(section)
        if found:
            lines += ["", title, *found]
    return "\n".join(lines) + "\n"


def summarize(plan: Plan) -> str:
    """Class, promise, warnings and the join tree only; ends with a newline."""
    notation = Notation(plan)
    return "\n".join([*_summary(notation), "", "Join tree", *_tree(notation)]) + "\n"


def _labelled(label: str, text: str) -> list[str]:
    return fold_text(text, label.ljust(LABELS), " " * LABELS)


def _summary(notation: Notation) -> Iterator[str]:
    plan = notation.plan
    yield from _labelled("Query", _describe_query(plan.query))
    for name, window in plan.query.windows:
        stream = "" if window.stream is None else f" on stream {window.stream}"
        yield from _labelled("Window", f"{name or 'all atoms'}: {window}{stream}")
    yield from _labelled("Class", f"{plan.plan_class.value}: {CLASSES[plan.plan_class]}")
    if len(plan.components) > 1:
        for number, component in enumerate(plan.components, start=1):
            root = " ".join(map(plain, component.root)) or "none"
            atoms = _plural(len(component.atoms), "atom")
            text = f"{number}: {component.plan_class.value}, {atoms}, root {root}"
            yield from _labelled("Component", text)
    yield from _labelled("Promise", plan.promise)
    for warning in plan.warnings:
        yield from _labelled("Warning", warning)


def _describe_query(query: Query) -> str:
    form = "ASK" if query.form is Form.ASK else "SELECT " + " ".join(query.head)
    parts = [form.strip(), _plural(len(query.atoms), "atom")]
    if query.values:
        parts.append(_plural(len(query.values), "VALUES block"))
    if query.filters:
        parts.append(_plural(len(query.filters), "filter"))
    return ", ".join(parts)


def _cost(plan: Plan) -> Iterator[str]:
    yield from _labelled("Counts", describe_totals(plan))
    made = sum(map(len, plan.choices))
    text = f"{plan.cost:g} by the cost model"
    if made:
        replay = " | ".join(" ".join(map(str, picks)) for picks in plan.choices)
        text += f", after {_plural(made, 'choice')} among legal plans (picks {replay})"
    yield from _labelled("Cost", text)


def _tree(notation: Notation) -> Iterator[str]:
    for line in draw_tree(notation, WIDTH - len(INDENT)):
        yield (INDENT + line).rstrip()
    if any(map(inputs_of, notation.plan.nodes)):
        yield f"{INDENT}(╞═ leads to what a join reads, ├─ to children)"


def _nodes(notation: Notation) -> Iterator[str]:
    plan = notation.plan
    rows = [
        [
            plan.nodes[number].name,
            plan.nodes[number].role.value,
            " + ".join(payload.value for payload in plan.nodes[number].payload),
            describe_storage(notation, number),
        ]
        for number in top_down(plan)
    ]
    return _align([["node", "role", "payload", "stores"], *rows])


def _access_paths(notation: Notation) -> Iterator[str]:
    plan = notation.plan
    numbers = len(f"#{len(plan.indexes)}")
    names = max((display_width(node.name) for node in plan.nodes), default=0)
    for role in Access:
        paths = [path for path in plan.access_paths if path.role is role]
        if paths:
            yield from fold_text(f"{role.value}: {PURPOSES[role]}", INDENT)
        for path in paths:
            node = plan.nodes[path.node]
            index = f"#{path.index + 1}".ljust(numbers)
            pad = " " * (names - display_width(node.name))
            first = f"{INDENT * 2}{index}  {node.name}{pad}  "
            yield from fold_text(path.reason, first, " " * display_width(first))


def _indexes(notation: Notation) -> Iterator[str]:
    plan = notation.plan
    rows: list[list[str]] = []
    for number, index in enumerate(plan.indexes):
        users = notation.users[number]
        rows.append(
            [
                f"#{number + 1}",
                notation.index(index, users),
                _owner(plan, index),
                _plural(len(users), "use"),
            ]
        )
    return _align(rows, flexible=1)


def _owner(plan: Plan, index: Index) -> str:
    if index.stored_for is not None:
        return f"kept by {plan.nodes[index.stored_for].name}"
    return f"{index.kind.value}, shared"


def _enumeration(notation: Notation) -> Iterator[str]:
    plan = notation.plan
    if plan.nodes[plan.root].role is Role.EXISTENTIAL:
        top = notation.marginal(plan.nodes[plan.root])
        return iter(fold_text(f"no cursor: the only answer is the number {top}", INDENT))
    steps: list[str] = []
    for number in plan.order:
        node = plan.nodes[number]
        shown = " ".join(map(plain, node.introduces)) or "–"
        steps.append(f"{node.name}: {shown}")
    words = [steps[0], *(f"→ {step}" for step in steps[1:])]
    note = "one cursor per witness node, for the variables it adds; the last moves first"
    return iter([*fold(words, INDENT, INDENT * 2), f"{INDENT}({note})"])


def _filters(notation: Notation) -> Iterator[str]:
    for placed in place_filters(notation.plan):
        text = notation.expression(placed.expression)
        where = _where(notation, placed.runs, placed.node)
        yield from fold([text, f"({where})"], INDENT, INDENT * 2)


def _where(notation: Notation, runs: Runs, number: int | None) -> str:
    if runs is Runs.ENUMERATION:
        return "while enumerating"
    if number is None:
        return "decided when compiled"
    node = notation.plan.nodes[number]
    if runs is Runs.JOIN:
        return f"inside join {node.name}"
    assert isinstance(node.guard, Alias | Static)
    relation = notation.relation(node.guard)
    return f"inside {'the atom ' if runs is Runs.ATOM else ''}{relation}, node {node.name}"


def _result(notation: Notation) -> Iterator[str]:
    query = notation.plan.query
    notes: list[str] = []
    if query.form is Form.ASK:
        notes.append("ASK: true if the total is positive")
    if query.grouping is not None:
        notes += _describe_grouping(notation)
    if query.duplicates is Duplicates.DISTINCT:
        notes.append("DISTINCT: every row once, its multiplicity dropped")
    elif query.duplicates is Duplicates.REDUCED:
        notes.append("REDUCED: equal rows may be merged")
    if query.limit is not None or query.offset:
        limit = "" if query.limit is None else f"LIMIT {query.limit}"
        offset = f"OFFSET {query.offset}" if query.offset else ""
        words = " ".join(filter(None, [limit, offset]))
        notes.append(f"{words}: counts expanded rows; for snapshots, not for changes")
    for note in notes:
        yield from fold_text(note, INDENT, INDENT * 2)


def _describe_grouping(notation: Notation) -> Iterator[str]:
    grouping = notation.plan.query.grouping
    assert grouping is not None
    keys = [notation.column(column) for column in grouping.keys]
    columns = [notation.column(column) for column in grouping.columns]
    yield "GROUP BY " + " ".join(keys) if keys else "one group over all answers"
    yield f"columns: {' '.join(columns)}"
    if grouping.having:
        yield "HAVING " + " && ".join(notation.expression(part) for part in grouping.having)


def _names(notation: Notation) -> Iterator[str]:
    for prefix, namespace, names in notation.names.legend():
        yield f"{INDENT}{prefix}: {namespace}" if prefix else f"{INDENT}{namespace}"
        yield from fold_list(names, INDENT * 2)


def _plural(number: int, noun: str) -> str:
    """
    >>> _plural(1, "atom"), _plural(2, "atom")
    ('1 atom', '2 atoms')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _align(rows: Sequence[Sequence[str]], flexible: int = -1) -> Iterator[str]:
    """Columns side by side; a cell of the ``flexible`` one that is too wide pushes the rest of
    its row onto the next line.
    """
    if not rows:
        return
    last = len(rows[0]) - 1
    widths = [max(display_width(row[i]) for row in rows) for i in range(last + 1)]
    if flexible >= 0:
        others = sum(width for i, width in enumerate(widths) if i != flexible)
        widths[flexible] = min(widths[flexible], WIDTH - others - 2 * last - len(INDENT))
    start = " " * (len(INDENT) + sum(widths[: max(flexible, 0)]) + 2 * max(flexible, 0))
    for row in rows:
        line = INDENT
        for i, cell in enumerate(row):
            line += cell + " " * (widths[i] - display_width(cell) + 2)
            if display_width(cell) > widths[i]:
                yield line.rstrip()
                line = start + " " * (widths[i] + 2)
        yield from fold_row(line.rstrip(), last, widths)


def fold_row(line: str, last: int, widths: Sequence[int]) -> Iterator[str]:
    """A row whose last cell runs past the edge continues under that cell."""
    if display_width(line) <= WIDTH:
        yield line
        return
    start = len(INDENT) + sum(widths[:last]) + 2 * last
    yield from fold(line[start:].split(), line[:start], " " * start)
