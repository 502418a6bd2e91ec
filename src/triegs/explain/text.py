"""A plan as text for a terminal of 80 columns; only longer names exceed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triegs.compiler.plan import Alias, Plan, Role, Static
from triegs.explain.facts import CLASSES, Runs, place_filters
from triegs.explain.lines import WIDTH, display_width, fold, fold_list, fold_text
from triegs.explain.notation import Notation, inputs_of, plain, top_down
from triegs.explain.program import REASONS, Program, describe_totals
from triegs.explain.tree import draw_tree
from triegs.maintain.lowered import Lowered
from triegs.sparql.model import Direction, Duplicates, Form, OrderKey, Query

INDENT = "  "
LABELS = 11


def explain_text(lowered: Lowered) -> str:
    """Everything about a plan and its program, section by section; ends with a newline."""
    plan = lowered.plan
    notation = Notation(plan)
    program = Program(notation, lowered)
    lines = list(_summary(notation)) + list(_cost(lowered))
    for title, section in (
        ("Join tree", _tree(notation)),
        ("Nodes", _nodes(notation, program)),
        ("Program", _program(program)),
        ("Enumeration", _enumeration(notation, lowered)),
        ("Filters", _filters(notation)),
        ("Result", _result(notation)),
        ("Names", _names(notation)),
    ):
        found = list(section)
        if found:
            lines += ["", title, *found]
    return "\n".join(lines) + "\n"


def summarize(plan: Plan) -> str:
    """Only class, promise, warnings and the join tree; ends with a newline."""
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
    items = [form.strip(), _plural(len(query.atoms), "atom")]
    if query.values:
        items.append(_plural(len(query.values), "VALUES block"))
    if query.filters:
        items.append(_plural(len(query.filters), "filter"))
    return ", ".join(items)


def _cost(lowered: Lowered) -> Iterator[str]:
    yield from _labelled("Counts", describe_totals(lowered))
    plan = lowered.plan
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
        yield f"{INDENT}(╞═ leads to inputs of a join, ├─ to children)"


def _nodes(notation: Notation, program: Program) -> Iterator[str]:
    plan = notation.plan
    rows = [
        [
            plan.nodes[number].name,
            plan.nodes[number].role.value,
            " + ".join(payload.value for payload in plan.nodes[number].payload),
            " ".join(f"#{index + 1}" for index in program.of_node.get(plan.nodes[number].name, ())),
        ]
        for number in top_down(plan)
    ]
    return _align([["node", "role", "payload", "kept in"], *rows])


def _program(program: Program) -> Iterator[str]:
    """A line per relation, with its maintenance below; then the purpose of each kind."""
    relations = program.relations
    rows = [
        [f"#{number}", program.title(each), program.kind(each), program.used(number - 1)]
        for number, each in enumerate(relations, 1)
    ]
    start = INDENT * 2 + " " * len(f"#{len(rows)}")
    for lines, each in zip(_align_rows(rows, flexible=1), relations, strict=True):
        yield from lines
        for detail in program.details(each):
            yield from fold_text(detail, start, start + INDENT)
    kinds = {each.kind for each in relations}
    for kind, reason in REASONS.items():
        if kind in kinds:
            yield from fold_text(f"({kind.value}: {reason})", INDENT, INDENT * 2)


def _enumeration(notation: Notation, lowered: Lowered) -> Iterator[str]:
    plan = notation.plan
    if plan.groups is None and plan.nodes[plan.root].role is Role.EXISTENTIAL:
        top = notation.marginal(plan.nodes[plan.root])
        return iter(fold_text(f"no cursor: the only answer is the number {top}", INDENT))
    steps = [
        f"#{level.relation + 1}: {' '.join(map(plain, level.binds))}" for level in lowered.levels
    ]
    if not steps:
        return iter(fold_text("no cursor: there is one answer or none", INDENT))
    words = [steps[0], *(f"→ {step}" for step in steps[1:])]
    note = "each relation lists the variables that it adds; the last varies fastest"
    return iter([*fold(words, INDENT, INDENT * 2), f"{INDENT}({note})"])


def _filters(notation: Notation) -> Iterator[str]:
    for placed in place_filters(notation.plan):
        text = notation.expression(placed.expression)
        where = _where(notation, placed.runs, placed.node)
        yield from fold([text, f"({where})"], INDENT, INDENT * 2)


def _where(notation: Notation, runs: Runs, number: int | None) -> str:
    if runs is Runs.ENUMERATION:
        return "during enumeration"
    if number is None:
        return "evaluated at compile time"
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
        notes.append("DISTINCT: every row once, without multiplicity")
    elif query.duplicates is Duplicates.REDUCED:
        notes.append("REDUCED: equal rows may be merged")
    if query.order:
        keys = " ".join(describe_order_key(notation, key) for key in query.order)
        how = "sorted when a snapshot is read"
        if query.limit is not None:
            how = f"selected when a snapshot is read, {query.offset + query.limit:,} rows at most"
        notes.append(f"ORDER BY {keys}: {how}; changes have no order")
    if query.limit is not None or query.offset:
        limit = "" if query.limit is None else f"LIMIT {query.limit}"
        offset = f"OFFSET {query.offset}" if query.offset else ""
        words = " ".join(filter(None, [limit, offset]))
        notes.append(f"{words}: counts expanded rows; applies to snapshots, not to changes")
    for note in notes:
        yield from fold_text(note, INDENT, INDENT * 2)


def describe_order_key(notation: Notation, key: OrderKey) -> str:
    """A key of ORDER BY as a query has it."""
    found = key.expression
    grouping = notation.plan.query.grouping
    if grouping is not None and found in notation.plan.query.hidden:
        found = next(each.expression for each in grouping.columns if each.name == found)
    text = notation.expression(found)
    if key.direction is Direction.DESCENDING:
        return f"DESC({text})"
    return text if isinstance(found, str) else f"({text})"


def _describe_grouping(notation: Notation) -> Iterator[str]:
    grouping = notation.plan.query.grouping
    assert grouping is not None
    keys = [notation.column(column) for column in grouping.keys]
    hidden = notation.plan.query.hidden
    shown = [column for column in grouping.columns if column.name not in hidden]
    columns = [notation.column(column) for column in shown]
    yield "GROUP BY " + " ".join(keys) if keys else "one group over all answers"
    yield f"columns: {' '.join(columns)}"
    if grouping.having:
        yield "HAVING " + " && ".join(notation.expression(each) for each in grouping.having)


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


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side."""
    for lines in _align_rows(rows):
        yield from lines


def _align_rows(rows: Sequence[Sequence[str]], flexible: int = -1) -> Iterator[list[str]]:
    """The lines of each row; an overlong cell of the ``flexible`` column moves the rest of its row
    to the next line.
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
        lines = []
        line = INDENT
        for i, cell in enumerate(row):
            line += cell + " " * (widths[i] - display_width(cell) + 2)
            if display_width(cell) > widths[i] and i < last:
                lines.append(line.rstrip())
                line = start + " " * (widths[i] + 2)
        yield [*lines, *fold_row(line.rstrip(), last, widths)]


def fold_row(line: str, last: int, widths: Sequence[int]) -> Iterator[str]:
    """Wrap a row whose last cell is too long under that cell."""
    if display_width(line) <= WIDTH:
        yield line
        return
    start = len(INDENT) + sum(widths[:last]) + 2 * last
    yield from fold(line[start:].split(), line[:start], " " * start)
