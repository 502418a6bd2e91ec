"""What the compiler decides: classes, roots, filters, payloads, sharing, refusals."""

from __future__ import annotations

import pytest

from triegs.compiler import compile_query, legal_plans
from triegs.compiler.plan import Alias, Join, Payload, Role, Static
from triegs.errors import PlanError
from triegs.sparql import parse
from triegs.sparql.model import Atom, Call, Form, Query
from triegs.testing import reference

PATH3 = "SELECT * { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }"


def plan_of(text, **options):
    return compile_query(parse(text), **options)


def rooted(plan):
    return plan.nodes[plan.root].bag


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PATH3, "full-acyclic"),
        ("SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", "free-connex"),
        ("SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z }", "materialized"),
        ("SELECT * { ?x <a> ?y . ?y <b> ?z . ?z <c> ?x }", "cyclic"),
        ("ASK { ?x <a> ?y . ?y <b> ?z . ?z <c> ?w }", "free-connex"),
        ("ASK { ?x <a> ?y . ?y <b> ?z . ?z <c> ?x }", "cyclic"),
        ("SELECT * { ?x <a> ?y . ?u <b> ?w }", "full-acyclic"),
        ("SELECT * { }", "full-acyclic"),
        ("ASK { <s> <p> <o> }", "full-acyclic"),
        # A ternary atom with a binary one is not a cycle.
        ("SELECT * { ?x ?p ?y . ?x <a> ?y }", "full-acyclic"),
        # Components of one query may differ; the weakest class is that of the query.
        ("SELECT ?x ?z ?u { ?x <a> ?y . ?y <b> ?z . ?u <c> ?w }", "materialized"),
    ],
)
def test_classes(text, expected):
    assert plan_of(text).plan_class.value == expected


def test_cost_puts_a_star_on_its_centre_and_a_path_on_its_middle():
    star = "SELECT * { ?c <a> ?p . ?c <a> ?q . ?c <a> ?r . ?c <a> ?s }"
    assert rooted(plan_of(star)) == ("?c",)
    assert rooted(plan_of(PATH3)) in (("?y",), ("?z",))
    long = " . ".join(f"?x{i} <a> ?x{i + 1}" for i in range(20))
    assert rooted(plan_of(f"SELECT * {{ {long} }}")) == ("?x10",)


@pytest.mark.parametrize("variable", "xyzw")
def test_any_head_variable_can_be_the_root(variable):
    plan = plan_of(PATH3, root=variable)
    assert rooted(plan) == (f"?{variable}",)
    assert plan.choices == compile_query(parse(PATH3), choices=plan.choices).choices


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"root": "y"}, "one of the head variables"),
        ({"root": "nope"}, "?nope cannot be the root"),
        ({"keep": ["everything"]}, "'count' and 'slice'"),
        ({"keep": "count"}, "give a list"),
        ({"choices": []}, "0 lists of choices for 1 components"),
        ({"choices": [[99]]}, "choice 0 is 99"),
    ],
)
def test_options_that_do_not_fit_the_query(options, message):
    with pytest.raises(PlanError) as caught:
        plan_of("SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z }", **options)
    assert message in str(caught.value)


def test_payloads():
    text = "SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }"
    plan = plan_of(text)
    by_role = {node.role: node.payload for node in plan.nodes}
    assert by_role == {Role.WITNESS: (Payload.LIVENESS,), Role.EXISTENTIAL: (Payload.EXACT,)}
    kept = plan_of(text, keep=["slice", "count"])
    assert (Payload.LIVENESS, Payload.TOTAL, Payload.POSITION) in {n.payload for n in kept.nodes}


def test_equal_sub_plans_of_two_queries_have_equal_keys():
    one = plan_of("SELECT ?x ?y { ?x <a> ?y . ?y <b> ?z }", root="x")
    other = plan_of("SELECT ?u ?w ?n { ?u <a> ?w . ?w <b> ?t . ?u <c> ?n }", root="u")
    shared = {node.key for node in one.nodes} & {node.key for node in other.nodes}
    assert len(shared) == 2  # <b> summed over its object, and <a> above it
    different = plan_of("SELECT ?x ?y { ?x <a> ?y . ?z <b> ?y }", root="x")
    assert len({node.key for node in one.nodes} & {node.key for node in different.nodes}) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("?x <a> ?y FILTER(?x < ?y)", "?x <a> ?y FILTER(?x > ?y)"),
        ("?x <a> ?y FILTER(?x < ?y)", "?x <a> ?y"),
        ("?x <a> ?y", "?y <a> ?x"),
        ("?x <a> ?y", "?x <b> ?y"),
        ("?x <a> ?x", "?x <a> ?y"),
    ],
)
def test_different_sub_plans_have_different_keys(one, other):
    first, second = (plan_of(f"SELECT ?x {{ {body} }}", root="x") for body in (one, other))
    assert {n.key for n in first.nodes}.isdisjoint(n.key for n in second.nodes)


def test_what_a_node_keeps_is_part_of_its_key():
    plain, kept = plan_of(PATH3, root="y"), plan_of(PATH3, root="y", keep=["count"])
    assert {n.key for n in plain.nodes}.isdisjoint(n.key for n in kept.nodes)


def test_filters_go_to_the_smallest_guard_that_has_their_variables():
    inside = plan_of("SELECT * { ?x <a> ?y . ?x ?p ?y FILTER(?x != ?y) }")
    hosts = [n.guard for n in inside.nodes if isinstance(n.guard, Alias) and n.guard.filters]
    assert [guard.atom.predicate for guard in hosts] == ["<a>"]

    across = plan_of("SELECT * { ?x <a> ?y . ?y <b> ?z FILTER(?x != ?z) }")
    assert across.filters == (Call("!=", ("?x", "?z")),)
    assert "during enumeration" in across.promise

    body = plan_of("SELECT ?x { ?x <a> ?y . ?y <b> ?z FILTER(?x != ?z) }")
    assert body.plan_class.value == "cyclic"  # the filter closes the triangle x y z
    joins = [node.guard for node in body.nodes if isinstance(node.guard, Join)]
    assert [join.filters for join in joins] == [(Call("!=", ("?x", "?z")),)]

    bag = plan_of("SELECT * { ?x <a> ?y . ?y <b> ?z . ?z <c> ?u . ?u <d> ?x FILTER(?x < ?z) }")
    assert not bag.filters  # no atom has both, the bag does

    never = plan_of("SELECT * { ?x <a> ?y FILTER(?w > 1) }")  # ?w is bound nowhere
    assert any(isinstance(n.guard, Static) and not n.guard.values.rows for n in never.nodes)


def test_a_filter_may_link_what_no_atom_links():
    text = "SELECT ?x { ?x <a> ?y . ?u <b> ?w FILTER(?y < ?u) }"
    plan = plan_of(text)
    assert len(plan.components) == 1
    numbers = [f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in range(3)]
    graph = [("<s>", "<a>", n) for n in numbers] + [(n, "<b>", "<o>") for n in numbers]
    assert reference.solutions(plan, graph) == {("<s>",): 3}


def test_a_cycle_of_filters_is_bound_by_atoms_outside_it():
    """Three filters form the cycle; the atoms that bind its variables are ears."""
    text = "SELECT ?k { ?x <a> ?k . ?y <b> ?l . ?z <c> ?m FILTER(?x != ?y) FILTER(?y != ?z)"
    plan = plan_of(text + " FILTER(?z != ?x) }")
    assert plan.plan_class.value == "cyclic"
    assert "closed by a filter" in plan.warnings[0]
    graph = [(f"<n{i}>", p, "<o>") for i in range(3) for p in ("<a>", "<b>", "<c>")]
    assert reference.solutions(plan, graph) == {("<o>",): 6}


def test_only_the_stuck_component_is_materialised():
    plan = plan_of("SELECT ?a ?b ?d { ?a <p> ?x . ?x <q> ?b . ?b <r> ?c . ?b <s> ?d }")
    joins = [node for node in plan.nodes if isinstance(node.guard, Join)]
    assert [set(node.bag) for node in joins] == [{"?a", "?b"}]
    assert "?x" in plan.warnings[0]


def test_cyclic_cores_become_bags_of_least_width():
    ring = " . ".join(f"?x{i} <e> ?x{(i + 1) % 6}" for i in range(6))
    plan = plan_of(f"SELECT * {{ {ring} . ?x0 <tail> ?t }}")
    widths = [node.guard.width for node in plan.nodes if isinstance(node.guard, Join)]
    assert max(widths) == 2
    assert any(isinstance(n.guard, Alias) and n.guard.label == "<tail>" for n in plan.nodes)
    clique = " . ".join(f"?x{i} <e> ?x{j}" for i in range(5) for j in range(i))
    five = plan_of(f"SELECT * {{ {clique} }}")
    assert [n.guard.width for n in five.nodes if isinstance(n.guard, Join)] == [3]


def test_plans_are_values():
    first, second = plan_of(PATH3), plan_of(PATH3)
    assert first == second
    assert hash(first) == hash(second)
    assert "V0" in repr(first)
    with pytest.raises(AttributeError):
        first.root = 3


def test_disconnected_components_meet_in_a_nullary_root():
    plan = plan_of("SELECT ?x ?u { ?x <a> ?y . ?u <b> ?w . <s> <p> <o> }")
    assert rooted(plan) == ()
    assert len(plan.nodes[plan.root].children) == len(plan.components) == 3
    assert any("cross product" in text for text in plan.warnings)


def test_a_filter_over_an_unbound_variable_must_be_resolved_before():
    query = Query(Form.ASK, (), (Atom("?x", "<p>", "?y"),), filters=(Call("BOUND", ("?z",)),))
    with pytest.raises(PlanError, match=r"\?z"):
        compile_query(query)


@pytest.mark.parametrize("shape", ["path", "star"])
def test_a_hundred_atoms_compile(shape):
    atoms = [f"?x{i if shape == 'path' else 0} <p> ?x{i + 1}" for i in range(100)]
    plan = plan_of(f"SELECT * {{ {' . '.join(atoms)} }}")
    assert len(plan.components) == 1


def test_legal_plans_beyond_the_limit_are_sampled_repeatably():
    text = "SELECT * { ?x ?p ?y . ?y ?q ?z . ?z ?r ?w . ?w ?s ?x2 }"
    some = legal_plans(parse(text), limit=5, seed=1).plans
    assert len(some) == 5
    assert some == legal_plans(parse(text), limit=5, seed=1).plans
    assert len({plan.choices for plan in some}) == 5
